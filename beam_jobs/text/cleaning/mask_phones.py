"""Telephone numbers."""

from __future__ import annotations

import dataclasses
import re

from typing_extensions import override

from beam_jobs.text.cleaning.base import Step, Texts

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
class MaskPhones(Step):
    """Replaces telephone numbers by a token.

    A telephone number has a plus sign and a country code, or the groups of North America, or a
    leading 0 and separators. Plain runs of digits are kept, since most are something else; so some
    numbers in unusual notation are kept too.

    Attributes:
        token: The replacement.
    """

    token: str = "<PHONE>"

    @override
    def __call__(self, texts: Texts) -> None:
        texts.mask(r"\+[1-9]|\d[-./) ]+\d\d", _PHONE, self.token, _is_phone)


def _is_phone(found: str) -> bool:
    digits = [char for char in found if char.isdigit()]
    return _MIN_DIGITS <= len(digits) <= 15 and not _DATE.fullmatch(found)


_DATE = re.compile(r"0?\d([ /.-])(?:0?\d|1[0-2])\1\d{4}|\d\d([ /.-])\d\d\2\d{4}")
