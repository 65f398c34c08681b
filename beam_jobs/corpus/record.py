"""What a corpus is made of: records, where their bytes are, and why one is rejected."""

from __future__ import annotations

# The stage of a rejection by a rule that the user chose; all others are of unusable records.
FILTER = "filter"


class Rejection(Exception):
    """A record cannot be used, or a rule filters it out.

    Args:
        reason: A short constant name, counted in the ledger: "truncated", "not-an-image", ...
        detail: What exactly was found; it never differs from run to run.
        stage: "list", "read", "prepare", or FILTER for usable data that a rule of the user's
            choice filters out; "" until `at` sets it.
        data: The original bytes, where they are at hand.
    """

    def __init__(
        self, reason: str, detail: str, *, stage: str = "", data: bytes | None = None
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.stage = stage
        self.data = data

    def at(self, stage: str) -> Rejection:
        """This rejection, with a stage if it had none."""
        self.stage = self.stage or stage
        return self

    def with_data(self, data: bytes | None) -> Rejection:
        """A copy with these bytes as the original."""
        return Rejection(self.reason, self.detail, stage=self.stage, data=data)

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
