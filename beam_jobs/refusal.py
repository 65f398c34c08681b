"""Why a record is not kept."""

from __future__ import annotations


class Refusal(Exception):
    """A record cannot be used, or a rule leaves it out.

    Args:
        reason: A short constant name, counted in the ledger: "truncated", "not-an-image", ...
        detail: What exactly was found; it never differs from run to run.
        filtered: True when a rule of the user's choice leaves out data that could be used.
        data: The original, where reading refuses a record whose bytes are at hand.
    """

    def __init__(
        self, reason: str, detail: str, *, filtered: bool = False, data: bytes | None = None
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.filtered = filtered
        self.data = data

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
