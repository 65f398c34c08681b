"""From what was tried to what is proposed, the most useful first. Arithmetic alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from trainer.diagnosis.costs import Costs, limits, of_same_resource, predicted_rate
from trainer.diagnosis.verdict import judge

# Less than that is lost in the noise of a machine, and not worth a person's time.
LEAST_GAIN = 1.1


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What a training job would cost with something changed.

    Attributes:
        remedy: Name of what was changed: a key of `trainer.diagnosis.remedies.REMEDIES`.
        stage: The stage that it makes cheaper.
        because: The cause, as the end of a sentence: "images are stored at ...".
        costs: Costs with the change.
        options: Options of `shardmill train` to be changed: {"--cache": "memory"}.
        command: What else has to be run, or an empty string.
        note: What the change costs or changes besides, or an empty string.
    """

    remedy: str
    stage: str
    because: str
    costs: Costs
    options: Mapping[str, str]
    command: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Advice:
    """A change, and what it is worth.

    Attributes:
        attempt: The change.
        rate: Examples per second that are expected with it.
        gain: The same, as a multiple of the rate without it; at least LEAST_GAIN.
    """

    attempt: Attempt
    rate: float
    gain: float


def rank(costs: Costs, measured_rate: float, attempts: Iterable[Attempt]) -> tuple[Advice, ...]:
    """What helps, the greatest gain first; of equal ones, the first tried first.

    A training is measured at the limit of one resource: storage, the processor, the copy or the
    device. As far as the model of costs is wrong there, it is corrected by what was measured. How
    near to their limits the others come was not seen, and is left as the model has it.

    Args:
        costs: Costs of the job without changes.
        measured_rate: Measured examples per second of the job, all stages at work.
        attempts: What was tried.
    """
    seen = of_same_resource(costs, judge(costs).station)
    correction = measured_rate / predicted_rate(costs)
    helpful = []
    for attempt in attempts:
        after = limits(attempt.costs).items()
        rate = min(each * correction if name in seen else each for name, each in after)
        if rate >= LEAST_GAIN * measured_rate:
            helpful.append(Advice(attempt, rate, rate / measured_rate))
    return tuple(sorted(helpful, key=lambda advice: -advice.gain))
