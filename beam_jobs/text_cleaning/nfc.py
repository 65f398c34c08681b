"""Unicode normalization form C."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.text_cleaning.base import Texts


@dataclasses.dataclass(frozen=True)
class Nfc:
    """One spelling for what looks the same: letters with their marks composed (UAX #15, NFC)."""

    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        texts.replace(pc.utf8_normalize(texts.text, "NFC"))
