"""Why a record is not kept."""

from __future__ import annotations


class Refusal(Exception):
    """A record cannot be used, or is not wanted.

    Args:
        reason: A short constant name, counted in the ledger: "truncated", "not-an-image", ...
        detail: What exactly was found; it never differs from run to run.
        filtered: True when the data are good and a rule that the user chose leaves them out; False
            when they cannot be used.
    """

    def __init__(self, reason: str, detail: str, *, filtered: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.filtered = filtered

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
