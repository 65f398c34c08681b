"""IP addresses."""

from __future__ import annotations

import dataclasses
import ipaddress
import re

from typing_extensions import override

from beam_jobs.text.cleaning.base import Step, Texts

_IP = re.compile(
    r"(?<![\w.:-])(?<!version )(?<!Version )(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\w)"
    r"|(?=[0-9A-Fa-f:]{0,4}:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:]))"
)

_DIGIT = re.compile("[0-9]")


@dataclasses.dataclass(frozen=True)
class MaskIps(Step):
    """Replaces IPv4 and IPv6 addresses by a token.

    Four numbers with dots are an address unless they follow "v" or "version"; groups with colons
    are if there are at least three colons and a digit.

    Attributes:
        token: The replacement.
        public_only: Whether to keep addresses without an owner: private, loopback, examples.
    """

    token: str = "<IP>"
    public_only: bool = True

    @override
    def __call__(self, texts: Texts) -> None:
        hint = r"\d\.\d{1,3}\.\d{1,3}\.\d|[0-9A-Fa-f]:[0-9A-Fa-f]*:|::"
        texts.mask(hint, _IP, self.token, self._is_address)

    def _is_address(self, found: str) -> bool:
        if ":" in found and (found.count(":") < 3 or not _DIGIT.search(found)):
            return False  # a::b is more often two names
        try:
            address = ipaddress.ip_address(found)
        except ValueError:
            return False
        return address.is_global or not self.public_only
