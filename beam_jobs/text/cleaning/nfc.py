"""Unicode normalization form C."""

from __future__ import annotations

import dataclasses
import functools
import unicodedata

import pyarrow as pa
from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Texts


@dataclasses.dataclass(frozen=True)
class Nfc(CleaningStep):
    """Composes letters and their marks, so that equal characters are equal (UAX #15, NFC).

    Arrow's utf8_normalize is not used, since it only decomposes (pyarrow 25 turns U+00E9 into two
    code points).
    """

    @override
    def __call__(self, texts: Texts) -> None:
        which = texts.measured.wide.copy()
        wide = texts.text.filter(pa.array(which)).to_pylist()
        which[which] = [not unicodedata.is_normalized("NFC", text) for text in wide]
        texts.replace_where(which, functools.partial(unicodedata.normalize, "NFC"))
