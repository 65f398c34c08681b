"""Personal data in documents: each step replaces what it finds by a token.

Patterns of Python have lookarounds, which RE2 lacks; so RE2 finds the documents that may have a
match, and only these are searched.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import ClassVar

from typing_extensions import override

from beam_jobs.text.cleaning.base import CleaningStep, Texts


class Mask(CleaningStep):
    """A step that replaces the matches of a pattern.

    Attributes:
        token: The replacement.
        hint: Expression of RE2 that matches in every document with a match.
        pattern: Pattern of what is replaced.
    """

    token: str
    hint: ClassVar[str]
    pattern: ClassVar[re.Pattern[str]]

    @override
    def __call__(self, texts: Texts) -> None:
        def replaced(match: re.Match[str]) -> str:
            return self.token if self.accepts(match[0]) else match[0]

        may_match = texts.measured.matching(self.hint)
        texts.replace_where(may_match, lambda text: self.pattern.sub(replaced, text))

    def accepts(self, match: str) -> bool:
        """Whether a match is replaced."""
        return True


# RFC 5321, section 4.5.3.1: at most 64 octets before the @, 63 for each label behind it (RFC 1035).
# No quoted local parts; letters of any script (RFC 6531).
_ADDRESS = re.compile(
    r"(?<![\w.+%-])[\w](?:[\w.!#$%&'*+/=?^`{|}~-]{0,62}[\w+-])?"
    r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])"
)


@dataclasses.dataclass(frozen=True)
class MaskEmails(Mask):
    """Replaces email addresses by a token.

    Attributes:
        token: The replacement.
    """

    token: str = "<EMAIL>"
    hint: ClassVar[str] = "@"
    pattern: ClassVar[re.Pattern[str]] = _ADDRESS


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
_DATE = re.compile(r"0?\d([ /.-])(?:0?\d|1[0-2])\1\d{4}|\d\d([ /.-])\d\d\2\d{4}")


@dataclasses.dataclass(frozen=True)
class MaskPhones(Mask):
    """Replaces telephone numbers by a token.

    A telephone number has a plus sign and a country code, or the groups of North America, or a
    leading 0 and separators. Plain runs of digits are kept, since most are something else; so some
    numbers in unusual notation are kept too.

    Attributes:
        token: The replacement.
    """

    token: str = "<PHONE>"
    hint: ClassVar[str] = r"\+[1-9]|\d[-./) ]+\d\d"
    pattern: ClassVar[re.Pattern[str]] = _PHONE

    @override
    def accepts(self, match: str) -> bool:
        digits = [char for char in match if char.isdigit()]
        return _MIN_DIGITS <= len(digits) <= 15 and not _DATE.fullmatch(match)


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
class MaskCards(Mask):
    """Replaces numbers of payment cards by a token.

    A number is a card number if it has the first digits and the length of a known scheme, is
    written in one piece or in groups as on cards, and has a correct check digit (Luhn, ISO/IEC
    7812-1 annex B).

    Attributes:
        token: The replacement.
    """

    token: str = "<CARD>"
    hint: ClassVar[str] = r"\d{13}|\d{4}[ -]\d{4}"
    pattern: ClassVar[re.Pattern[str]] = _CARD

    @override
    def accepts(self, match: str) -> bool:
        digits = re.sub("[ -]", "", match)
        return digits.isascii() and _SCHEME.fullmatch(digits) is not None and luhn(digits)


def luhn(digits: str) -> bool:
    """Whether the check digit of a number is correct.

    Every second digit from the right is doubled and replaced by the sum of its digits; the total
    must be a multiple of ten.
    """
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


_IP = re.compile(
    r"(?<![\w.:-])(?<!version )(?<!Version )(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\w)"
    r"|(?=[0-9A-Fa-f:]{0,4}:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:]))"
)

_DIGIT = re.compile("[0-9]")


@dataclasses.dataclass(frozen=True)
class MaskIps(Mask):
    """Replaces IPv4 and IPv6 addresses by a token.

    Four numbers with dots are an address unless they follow "v" or "version"; groups with colons
    are if there are at least three colons and a digit.

    Attributes:
        token: The replacement.
        public_only: Whether to keep addresses without an owner: private, loopback, examples.
    """

    token: str = "<IP>"
    public_only: bool = True

    hint: ClassVar[str] = r"\d\.\d{1,3}\.\d{1,3}\.\d|[0-9A-Fa-f]:[0-9A-Fa-f]*:|::"
    pattern: ClassVar[re.Pattern[str]] = _IP

    @override
    def accepts(self, match: str) -> bool:
        if ":" in match and (match.count(":") < 3 or not _DIGIT.search(match)):
            return False  # a::b is more often two names
        try:
            address = ipaddress.ip_address(match)
        except ValueError:
            return False
        return address.is_global or not self.public_only
