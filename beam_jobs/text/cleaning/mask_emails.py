"""Email addresses."""

from __future__ import annotations

import dataclasses
import re

from typing_extensions import override

from beam_jobs.text.cleaning.base import Step, Texts

# RFC 5321, section 4.5.3.1: at most 64 octets before the @, 63 for each label behind it (RFC 1035).
# No quoted local parts; letters of any script (RFC 6531).
_ADDRESS = re.compile(
    r"(?<![\w.+%-])[\w](?:[\w.!#$%&'*+/=?^`{|}~-]{0,62}[\w+-])?"
    r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])"
)


@dataclasses.dataclass(frozen=True)
class MaskEmails(Step):
    """Replaces email addresses by a token.

    Attributes:
        token: The replacement.
    """

    token: str = "<EMAIL>"

    @override
    def __call__(self, texts: Texts) -> None:
        texts.mask("@", _ADDRESS, self.token)
