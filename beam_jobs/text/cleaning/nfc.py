"""Unicode normalization form C."""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from typing import ClassVar

import pyarrow as pa

from beam_jobs.text.cleaning.base import Texts


@dataclasses.dataclass(frozen=True)
class Nfc:
    """One spelling for what looks the same: letters with their marks composed (UAX #15, NFC).

    Arrow's utf8_normalize is not used: it decomposes and leaves it at that (pyarrow 25 makes two
    code points of U+00E9).
    """

    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        which = texts.measured.wide.copy()
        wide = texts.text.filter(pa.array(which)).to_pylist()
        which[which] = [not unicodedata.is_normalized("NFC", text) for text in wide]
        texts.replace_where(which, functools.partial(unicodedata.normalize, "NFC"))
