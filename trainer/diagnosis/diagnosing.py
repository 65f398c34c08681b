"""The diagnosis of a training: measures every stage alone and proposes remedies."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from foundation.machine import machine_cores, usable_cores
from foundation.storage import place_of
from reader.profiling.stages import StageTimes, measure_stages
from reader.stream import StreamInfo
from shard_format import UsageError
from trainer.diagnosis.costs import (
    Costs,
    Verdict,
    judge,
    limits,
    predicted_rate,
    stage_rates,
    stage_shares,
    with_cheaper_stage,
)
from trainer.diagnosis.measuring import (
    StepTimes,
    TrainingTimes,
    measure_step,
    measure_training,
    open_job,
)
from trainer.diagnosis.remedies import REMEDIES, Advice, Case
from trainer.options import Settings, TrainOptions, flags_of

# A remedy is proposed only if its stages take at least that share of the slowest station's time,
# and the rate may rise at least by that factor: smaller gains are lost in noise.
LEAST_SHARE = 0.1
LEAST_GAIN = 1.1

_NOUNS = {
    "storage": "storage",
    "parse": "parsing records",
    "decode": "decoding images",
    "augment": "augmentation",
    "batch": "putting batches together",
    "copy": "copying batches to the device",
    "step": "the model's step",
    "cores": "the number of CPU cores",
}

OnMeasure = Callable[[str], None]  # called with the name of the next measurement


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A remedy that applies to a training.

    Attributes:
        remedy: Name of the remedy: a key of `REMEDIES`.
        stage: Stage that it makes cheaper.
        advice: Change to make.
        command: Commands that make it, one per line.
        rate: Examples per second that it can reach at most.
        gain: The same, as a multiple of the measured rate.
    """

    remedy: str
    stage: str
    advice: Advice
    command: str
    rate: float
    gain: float


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The bottleneck of a training, with all measurements.

    Attributes:
        options: Options of the training.
        precision: The Keras dtype policy.
        info: Description of its stream.
        training: Times of a short training with all stages at work.
        stages: Times of the stages of the input.
        step: Times of a training step.
        costs: Costs of an example.
        verdict: The bottleneck.
        proposals: Remedies, the greatest gain first.
    """

    options: Settings
    precision: str
    info: StreamInfo
    training: TrainingTimes
    stages: StageTimes
    step: StepTimes
    costs: Costs
    verdict: Verdict
    proposals: tuple[Proposal, ...]

    @property
    def main_proposal(self) -> Proposal | None:
        """The first remedy of the bottleneck itself; None if none applies."""
        return next((one for one in self.proposals if one.stage == self.verdict.stage), None)

    @property
    def sentence(self) -> str:
        """The bottleneck in one sentence, with its reason if one is known."""
        verdict = self.verdict
        if self.main_proposal is not None:
            because = self.main_proposal.advice.because
            return f"The bottleneck is {_NOUNS[verdict.stage]}: {because}."
        if verdict.stage == "step":
            return (
                "Nothing on the input: the model is the limit, and the input pipeline has "
                f"{verdict.headroom:.1f} x headroom."
            )
        return (
            f"The bottleneck is {_NOUNS[verdict.stage]}: it takes {verdict.share:.0%} of the time "
            "that holds the job back, and no remedy is known."
        )

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as one JSON object.

        Rates are in examples per second, None if there is no limit; times in seconds per example,
        of stages over all threads.
        """
        costs, storage = self.costs, self.stages.storage
        cpu = {**costs.cpu_seconds, "step": costs.step_cpu_seconds}
        return {
            "bottleneck": {
                "stage": self.verdict.stage,
                "cause": self.main_proposal.remedy if self.main_proposal else "work",
                "sentence": self.sentence,
                "station": self.verdict.station,
                "share": round(self.verdict.share, 4),
            },
            "examples_per_second": round(self.training.rate, 3),
            "expected_examples_per_second": _number(predicted_rate(costs)),
            "headroom": round(self.verdict.headroom, 3),
            "stages": {
                name: {"examples_per_second": _number(rate), "cpu_seconds": cpu.get(name, 0.0)}
                for name, rate in stage_rates(costs).items()
            },
            "limits": {name: _number(rate) for name, rate in limits(costs).items()},
            "storage": dataclasses.asdict(storage)
            | {
                "cold_megabytes_per_second": _megabytes(storage.record_bytes, storage.cold_seconds),
                "warm_megabytes_per_second": _megabytes(storage.record_bytes, storage.warm_seconds),
                "read_every_epoch": self.stages.reads_files,
            },
            "step": dataclasses.asdict(self.step),
            "training": dataclasses.asdict(self.training),
            "cores": costs.cores,
            "machine_cores": costs.machine_cores,
            "model": self.options.model,
            "precision": self.precision,
            "batch_size": self.options.batch_size,
            "cache": {"used": self.info.cache, "reason": self.info.cache_reason},
            "advice": [
                {
                    "remedy": proposal.remedy,
                    "stage": proposal.stage,
                    "because": proposal.advice.because,
                    "options": dict(proposal.advice.options),
                    "command": proposal.command,
                    "examples_per_second": _number(proposal.rate),
                    "gain": _number(proposal.gain),
                    "note": proposal.advice.note,
                }
                for proposal in self.proposals
            ],
        }


def diagnose(
    asked: TrainOptions, seconds: float, on_measure: OnMeasure = lambda name: None
) -> Diagnosis:
    """Finds the bottleneck of a training and what makes it cheaper; nothing is written.

    Args:
        asked: Options of the training.
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
    return Diagnosis(
        options=job.options,
        precision=job.policy,
        info=job.stream.info,
        training=training,
        stages=stages,
        step=step,
        costs=costs,
        verdict=judge(costs),
        proposals=propose(asked, Case(job, costs, stages), training.rate),
    )


def costs_of(training: TrainingTimes, stages: StageTimes, step: StepTimes, on_gpu: bool) -> Costs:
    """Computes the costs of an example from the measurements."""
    storage = stages.storage
    reading = storage.cpu_seconds if stages.reads_files else 0.0
    storage_seconds = 0.0
    if stages.reads_files:
        # Share of the bytes that came from storage; the rest came from the page cache. It is above
        # 1 if the system reads ahead and evicts pages before they are used.
        cold = training.read_bytes / storage.record_bytes
        cold_seconds = storage.cold_seconds or storage.warm_seconds
        storage_seconds = cold * cold_seconds + max(0.0, 1 - cold) * storage.warm_seconds
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


def propose(asked: TrainOptions, case: Case, measured_rate: float) -> tuple[Proposal, ...]:
    """Proposes the remedies that apply to the slowest station, the greatest gain first.

    Args:
        asked: Options of the training.
        case: The training and its costs.
        measured_rate: Examples per second of the training, measured.
    """
    proposals = _applicable(asked, case, measured_rate)
    return tuple(sorted(proposals, key=lambda proposal: -proposal.gain))


def _applicable(asked: TrainOptions, case: Case, measured_rate: float) -> Iterator[Proposal]:
    shares = stage_shares(case.costs)
    for name, remedy in REMEDIES.items():
        stage = max(remedy.stages, key=lambda stage: shares.get(stage, 0.0))
        if shares.get(stage, 0.0) < LEAST_SHARE:
            continue
        advice = remedy.advise(case)
        if advice is None:
            continue
        costs = case.costs
        for cheaper in remedy.stages:
            costs = with_cheaper_stage(costs, cheaper, advice.remaining)
        rate = predicted_rate(costs)
        if rate >= LEAST_GAIN * measured_rate:
            command = command_of(asked, advice)
            yield Proposal(name, stage, advice, command, rate, rate / measured_rate)


def command_of(asked: TrainOptions, advice: Advice) -> str:
    """Commands that make a change, one per line: all given options, with those of the advice."""
    place, lines = asked.data, []
    if advice.new_set:
        place = place_of(f"{asked.data}-{advice.new_set}")
        out = shlex.quote(str(place))
        lines.append(f"shardmill preprocess images SRC... --out {out} {advice.preprocess}")
    given = {
        field.name: getattr(asked, field.name)
        for field in dataclasses.fields(TrainOptions)
        if field.name not in ("data", "run_dir") and getattr(asked, field.name) != field.default
    }
    flags = [part for pair in (flags_of(given) | dict(advice.options)).items() for part in pair]
    train = shlex.join(["shardmill", "train", str(place), *(flag for flag in flags if flag)])
    return "\n".join([*lines, f"{advice.launcher} {train}".lstrip()])


def _number(rate: float) -> float | None:
    return round(rate, 3) if math.isfinite(rate) else None


def _megabytes(record_bytes: float, seconds: float | None) -> float | None:
    return None if seconds is None else round(record_bytes / seconds / 1e6, 3)
