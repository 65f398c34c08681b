"""The reasons of the ledger for URLs that give nothing, and which of them may pass."""

from __future__ import annotations

PRIVATE, OPTED_OUT, BAD_URL = "private-address", "opted-out", "bad-url"
TIMEOUT, NOT_CONNECTED, NO_NAME = "timeout", "connect-failed", "dns-failed"
REDIRECTS, CUT_OFF, BAD_ANSWER = "too-many-redirects", "connection-lost", "bad-answer"
# Reasons that may be gone the next time; of HTTP, see `may_come_back`.
_TEMPORARY = frozenset({TIMEOUT, NOT_CONNECTED, NO_NAME, CUT_OFF})
STATUS = "http-"
_BUSY = 429


def may_come_back(reason: str) -> bool:
    """Whether a URL that was rejected for a reason may be fetched at another time."""
    status = reason.removeprefix(STATUS)
    if status == reason or not status.isdecimal():
        return reason in _TEMPORARY
    return int(status) == _BUSY or 500 <= int(status) < 600
