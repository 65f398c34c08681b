"""Numbers of payment cards."""

from __future__ import annotations

import dataclasses
import re

from typing_extensions import override

from beam_jobs.text.cleaning.base import Step, Texts

# ISO/IEC 7812: up to 19 digits, the last of which is a check digit. In one piece, or in groups as
# printed on cards, with one kind of separator: 4-4-4-4, 4-6-5 (American Express), 4-6-4
# (Diners Club).
_CARD = re.compile(
    r"(?<![\w.,+-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?"
    r"|\d{4}([ -])\d{6}\2\d{4,5})(?![\w-]|[.,]\d)"
)
# First digits and lengths of the larger schemes: Visa, Mastercard, American Express, Discover and
# UnionPay, JCB, Diners Club, Maestro.
_SCHEME = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|27[2]0\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d|2\d\d)\d{12,15}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|3(?:0[0-5]|[689]\d)\d{11,16}|(?:50|5[6-9]|6\d)\d{10,17}"
)


@dataclasses.dataclass(frozen=True)
class MaskCards(Step):
    """Replaces numbers of payment cards by a token.

    A number is a card number if it has the first digits and the length of a known scheme, is
    written in one piece or in groups as on cards, and has a correct check digit (Luhn, ISO/IEC
    7812-1 annex B).

    Attributes:
        token: The replacement.
    """

    token: str = "<CARD>"

    @override
    def __call__(self, texts: Texts) -> None:
        texts.mask(r"\d{13}|\d{4}[ -]\d{4}", _CARD, self.token, _is_card)


def _is_card(found: str) -> bool:
    digits = re.sub("[ -]", "", found)
    return digits.isascii() and _SCHEME.fullmatch(digits) is not None and luhn(digits)


def luhn(digits: str) -> bool:
    """Whether the check digit of a number is correct.

    Every second digit from the right is doubled and replaced by the sum of its digits; the total
    must be a multiple of ten.
    """
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0
