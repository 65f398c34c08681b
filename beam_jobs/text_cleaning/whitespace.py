"""White space."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.text_cleaning.base import Texts


@dataclasses.dataclass(frozen=True)
class Whitespace:
    """One line break for each of them, no blanks at the ends of lines, no run of empty lines."""

    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        text = pc.replace_substring_regex(texts.text, r"\r\n?|\x{2028}|\x{2029}|\x{85}", "\n")
        text = pc.replace_substring_regex(text, r"[ \t]+\n", "\n")
        text = pc.replace_substring_regex(text, r"\n{3,}", "\n\n")
        texts.replace(pc.utf8_trim_whitespace(text))
