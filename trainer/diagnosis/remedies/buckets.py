"""Batches of documents of similar length, which need little padding."""

from __future__ import annotations

from trainer.defaults import BUCKETS
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.job import changed
from trainer.diagnosis.remedies.base import Case

_LEAST_PADDING = 0.15  # below it there is little to win


def attempt(case: Case) -> Attempt | None:
    """Applies to token ids in fewer groups than by default, where padding is much."""
    tokens, buckets = case.job.stream.info.tokens, case.job.options.buckets
    if tokens is None or buckets is None or buckets >= BUCKETS:
        return None
    if tokens.padding_share < _LEAST_PADDING:
        return None
    return Attempt(
        remedy="buckets",
        stage="step",
        because=f"{tokens.padding_share:.0%} of what the model computes on is padding",
        costs=case.with_job(changed(case.job, buckets=BUCKETS)),
        options={"--buckets": str(BUCKETS)},
    )
