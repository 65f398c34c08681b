"""Why a record is not kept."""

from __future__ import annotations


class Refusal(Exception):
    """A record cannot be used.

    Args:
        reason: A short constant name, counted in the ledger: "truncated", "not-an-image", ...
        detail: What exactly was found; it never differs from run to run.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
