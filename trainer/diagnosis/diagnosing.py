"""The diagnosis of a training job: everything is measured apart, then what would help is tried."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import tensorflow as tf

from foundation.machine import machine_cores, usable_cores
from reader.profiling.stages import StageTimes, measure_stages
from reader.stream import StreamInfo
from shard_format import UsageError
from trainer.diagnosis.advice import Advice, Attempt, rank
from trainer.diagnosis.costs import Costs
from trainer.diagnosis.job import open_job
from trainer.diagnosis.measuring import StepTimes, TrainingTimes, measure_step, measure_training
from trainer.diagnosis.remedies import REMEDIES, Case
from trainer.diagnosis.verdict import Verdict, judge, shares
from trainer.options import Settings, TrainOptions

# A remedy is tried only where the stages that it makes cheaper take at least that share of what
# holds the job back: else it could bring next to nothing.
_LEAST_SHARE = 0.1

OnMeasure = Callable[[str], None]  # called with what is measured next


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        options: Options of the job.
        precision: The Keras dtype policy that was used.
        info: Description of its stream.
        training: A short training, all stages at work.
        stages: Stages of the input.
        step: Training step of the model.
        costs: All of it, per example.
        verdict: What holds the job back.
        advice: What helps, the most useful first.
    """

    options: Settings
    precision: str
    info: StreamInfo
    training: TrainingTimes
    stages: StageTimes
    step: StepTimes
    costs: Costs
    verdict: Verdict
    advice: tuple[Advice, ...]

    @property
    def cause(self) -> str:
        """What is the matter with the stage that holds the job back, as the name of a remedy.

        "work" where the stage does what it has to do, and nothing that was tried makes it cheaper.
        """
        own = (a.attempt.remedy for a in self.advice if a.attempt.stage == self.verdict.stage)
        return next(own, "work")


def diagnose(
    asked: TrainOptions, seconds: float, on_measure: OnMeasure = lambda name: None
) -> Diagnosis:
    """What holds a training job back, and what would help; nothing is written.

    Args:
        asked: The options of the training.
        seconds: Seconds of each measurement, of which there are about ten.
        on_measure: Function called as each begins.

    Raises:
        UsageError: The time is not above 0 or is endless, or the options contradict each other,
            the data set or the machine.
        ShardSetError: There is no shard set in `asked.data`.
    """
    if not 0 < seconds < math.inf:
        raise UsageError(f"--seconds is {seconds}. Pass a finite number above 0, such as 3.")
    on_measure("training")
    job = open_job(asked)
    # First, before anything else fills the page cache.
    training = measure_training(job, seconds)
    on_measure("step")
    step = measure_step(job, seconds)
    stages = measure_stages(job.stream, seconds, on_measure)
    costs = costs_of(training, stages, step, on_gpu=bool(tf.config.list_logical_devices("GPU")))
    case = Case(job, seconds, costs, stages, step)
    attempts = _attempts(case, on_measure)
    return Diagnosis(
        options=job.options,
        precision=job.policy,
        info=job.stream.info,
        training=training,
        stages=stages,
        step=step,
        costs=costs,
        verdict=judge(costs),
        advice=rank(costs, training.rate, attempts),
    )


def measure_job(asked: TrainOptions, seconds: float) -> TrainingTimes:
    """What a short training takes."""
    return measure_training(open_job(asked), seconds)


def costs_of(training: TrainingTimes, stages: StageTimes, step: StepTimes, on_gpu: bool) -> Costs:
    """The costs that follow from what was measured."""
    storage = stages.storage
    reading = storage.cpu_seconds if stages.reads_files else 0.0
    storage_seconds = 0.0
    if stages.reads_files:
        # What was read from storage, of what was asked for: the rest came from the page cache.
        # Above 1 where the system reads ahead, and forgets it before it is asked for.
        cold = training.read_bytes / storage.record_bytes
        slow = storage.warm_seconds if storage.cold_seconds is None else storage.cold_seconds
        storage_seconds = cold * slow + max(0.0, 1 - cold) * storage.warm_seconds
    return Costs(
        storage_seconds=storage_seconds,
        # Reading takes CPU time too, which the chain, measured from memory, does not have.
        input_seconds=stages.chain.seconds * (1 + reading / stages.chain.cpu_seconds),
        cpu_seconds={stage.name: stage.cpu_seconds for stage in stages.stages},
        copy_seconds=step.copy_seconds,
        step_seconds=step.seconds,
        step_cpu_seconds=step.cpu_seconds,
        cores=usable_cores(),
        machine_cores=machine_cores(),
        on_gpu=on_gpu,
    )


def _attempts(case: Case, on_measure: OnMeasure) -> list[Attempt]:
    """What the remedies come to that may help here."""
    held = shares(case.costs) | ({"cores": 1.0} if judge(case.costs).stage == "cores" else {})
    attempts = []
    for name, remedy in REMEDIES.items():
        if max(held.get(stage, 0.0) for stage in remedy.stages) >= _LEAST_SHARE:
            on_measure(f"with {name}")
            attempt = remedy.attempt(case)
            if attempt is not None:
                attempts.append(attempt)
    return attempts
