"""Telephone numbers."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

import pyarrow as pa

from beam_jobs.text.cleaning.base import Texts
from beam_jobs.text.cleaning.masking import mask

_BEFORE = r"(?<![\w.,/:$\u20ac\u00a3+-])"
_AFTER = r"(?![\w%]|[-.,/:]\d)"
_PHONE = re.compile(
    # International, by its plus sign: E.123, E.164 (at most 15 digits).
    rf"{_BEFORE}\+[1-9]\d{{0,2}}(?:[ .-]?\(\d{{1,4}}\))?(?:[ .-]?\d){{5,13}}{_AFTER}"
    # North America, with separators: 10 digits, area code and exchange not below 200.
    rf"|{_BEFORE}(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d([-.]))[2-9]\d\d[-.]\d{{4}}{_AFTER}"
    # Elsewhere, by the trunk prefix 0 in brackets or with a separator behind the area code.
    rf"|{_BEFORE}\(0\d{{1,5}}\)[ -]?\d{{2,4}}(?:[ -]?\d{{2,4}}){{1,3}}{_AFTER}"
    rf"|{_BEFORE}0[1-9]\d{{0,3}}(?:([ /-])\d{{2,8}}(?:[ -]\d{{2,6}}){{0,4}}){_AFTER}"
)
_MIN_DIGITS = 8


@dataclasses.dataclass(frozen=True)
class MaskPhones:
    """Puts a token in the place of telephone numbers.

    A number counts as one if it is written as telephone numbers are: with a plus sign and a country
    code, in the groups of North America, or with a leading 0 and separators. Bare runs of digits
    are not touched, for most are none: some numbers in unusual spellings stay.

    Attributes:
        token: What takes their place.
    """

    token: str = "<PHONE>"
    reports: ClassVar[tuple[pa.Field, ...]] = ()

    def __call__(self, texts: Texts) -> None:
        """See Step."""
        mask(texts, r"\+[1-9]|\d[-./) ]+\d\d", _PHONE, self.token, _is_phone)


def _is_phone(found: str) -> bool:
    digits = [char for char in found if char.isdigit()]
    return _MIN_DIGITS <= len(digits) <= 15 and not _DATE.fullmatch(found)


_DATE = re.compile(r"0?\d([ /.-])(?:0?\d|1[0-2])\1\d{4}|\d\d([ /.-])\d\d\2\d{4}")
