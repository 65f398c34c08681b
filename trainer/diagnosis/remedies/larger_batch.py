"""More examples per step, where a step costs much whatever its batch."""

from __future__ import annotations

from trainer.diagnosis.advice import LEAST_GAIN, Attempt
from trainer.diagnosis.costs import Costs, predicted_rate
from trainer.diagnosis.job import changed
from trainer.diagnosis.remedies.base import Case

_FACTOR = 4
_LARGEST = 1024  # beyond that a recipe for large batches is needed, which is no matter of speed
_WORTH_MORE = 1.25  # that much more a next larger batch must bring


def attempt(case: Case) -> Attempt | None:
    """Applies where four times the batch is worth it; tries larger ones while they are."""
    best: tuple[int, Costs] | None = None
    rate, batch_size = predicted_rate(case.costs), case.job.options.batch_size
    while (batch_size := batch_size * _FACTOR) <= min(_LARGEST, case.job.stream.info.records):
        costs = case.with_job(changed(case.job, batch_size=batch_size))
        needed = LEAST_GAIN if best is None else _WORTH_MORE
        if predicted_rate(costs) < needed * rate:
            break
        best, rate = (batch_size, costs), predicted_rate(costs)
    if best is None:
        return None
    return Attempt(
        remedy="larger-batch",
        stage="step",
        because=(
            f"a step has work that is the same for any batch, and batches of "
            f"{case.job.options.batch_size} spread it over few examples"
        ),
        costs=best[1],
        options={"--batch-size": str(best[0])},
        note="fewer, larger steps: raise --learning-rate with the batch, and compare validation",
    )
