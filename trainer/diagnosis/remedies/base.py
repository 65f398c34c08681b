"""What a remedy knows of a job, and how it says what the job would cost with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from reader.pipeline import InputPipeline
from reader.profiling.sampled_pipeline import sampled_pipeline
from reader.profiling.stages import ChainTimes, StageTimes, measure_chain
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.costs import Costs
from trainer.diagnosis.job import Job
from trainer.diagnosis.measuring import StepTimes, measure_step


@dataclasses.dataclass(frozen=True)
class Case:
    """A job whose costs are known.

    Attributes:
        job: The job.
        seconds: Seconds of each measurement.
        costs: Costs of the job.
        stages: What its stream takes.
        step: What its steps take.
    """

    job: Job
    seconds: float
    costs: Costs
    stages: StageTimes
    step: StepTimes

    @property
    def pipeline(self) -> InputPipeline:
        """Pipeline of the stream's records, from memory."""
        return sampled_pipeline(self.job.stream)

    @property
    def reading_cpu_seconds(self) -> float:
        """CPU time of reading files, per example; 0 where records come from memory."""
        return self.stages.storage.cpu_seconds if self.stages.reads_files else 0.0

    def with_chain(
        self, pipeline: InputPipeline, reading_cpu_seconds: float | None = None
    ) -> Costs:
        """The costs with another chain behind storage, which is measured here.

        Args:
            pipeline: InputPipeline of the other chain, from memory.
            reading_cpu_seconds: CPU time of reading its files; None for no change.
        """
        reading = self.reading_cpu_seconds if reading_cpu_seconds is None else reading_cpu_seconds
        return with_times(self.costs, measure_chain(pipeline, self.seconds), reading)

    def with_step(self, step: StepTimes) -> Costs:
        """The costs with other steps."""
        return with_step(self.costs, step)

    def with_job(self, job: Job) -> Costs:
        """The costs of another job on the same set, of which input and steps are measured here."""
        costs = self.with_chain(sampled_pipeline(job.stream))
        return with_step(costs, measure_step(job, self.seconds))


def with_step(costs: Costs, step: StepTimes) -> Costs:
    """The costs with other steps."""
    return dataclasses.replace(
        costs,
        copy_seconds=step.copy_seconds,
        step_seconds=step.seconds,
        step_cpu_seconds=step.cpu_seconds,
    )


def with_times(costs: Costs, chain: ChainTimes, reading_cpu_seconds: float) -> Costs:
    """The costs with another chain; its stages are not distinguished."""
    return dataclasses.replace(
        costs,
        input_seconds=chain.seconds,
        cpu_seconds={"storage": reading_cpu_seconds, "input": chain.cpu_seconds},
    )


@dataclasses.dataclass(frozen=True)
class Remedy:
    """One way to make a job faster.

    Attributes:
        stages: Those that it makes cheaper; it is tried where one of them holds the job back.
        attempt: What the job would cost with it; None where it does not apply.
    """

    stages: tuple[str, ...]
    attempt: Callable[[Case], Attempt | None]
