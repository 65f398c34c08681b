"""A diagnosis as one JSON object."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from trainer.diagnosis.advice import Advice
from trainer.diagnosis.costs import limits, predicted_rate, stage_rates
from trainer.diagnosis.diagnosing import Diagnosis
from trainer.diagnosis.wording import command, sentence
from trainer.options import TrainOptions


def as_json(asked: TrainOptions, diagnosis: Diagnosis) -> dict[str, Any]:
    """All that is known; rates in examples per second, None where there is no limit.

    Times are in seconds per example, of stages over all threads.
    """
    costs, storage = diagnosis.costs, diagnosis.stages.storage
    cpu = dict(costs.cpu_seconds) | {"step": costs.step_cpu_seconds}
    return {
        "bottleneck": {
            "stage": diagnosis.verdict.stage,
            "cause": diagnosis.cause,
            "sentence": sentence(diagnosis.verdict, diagnosis.advice),
            "station": diagnosis.verdict.station,
            "share": round(diagnosis.verdict.share, 4),
        },
        "examples_per_second": round(diagnosis.training.rate, 3),
        "expected_examples_per_second": _number(predicted_rate(costs)),
        "headroom": round(diagnosis.verdict.headroom, 3),
        "stages": {
            name: {"examples_per_second": _number(rate), "cpu_seconds": cpu.get(name, 0.0)}
            for name, rate in stage_rates(costs).items()
        },
        "limits": {name: _number(rate) for name, rate in limits(costs).items()},
        "storage": dataclasses.asdict(storage)
        | {
            "cold_megabytes_per_second": _megabytes(storage.record_bytes, storage.cold_seconds),
            "warm_megabytes_per_second": _megabytes(storage.record_bytes, storage.warm_seconds),
            "read_every_epoch": diagnosis.stages.reads_files,
        },
        "step": dataclasses.asdict(diagnosis.step),
        "training": dataclasses.asdict(diagnosis.training),
        "cores": costs.cores,
        "machine_cores": costs.machine_cores,
        "model": diagnosis.options.model,
        "precision": diagnosis.precision,
        "batch_size": diagnosis.options.batch_size,
        "cache": {"used": diagnosis.info.cache, "reason": diagnosis.info.cache_reason},
        "advice": [_advice(asked, each) for each in diagnosis.advice],
    }


def _advice(asked: TrainOptions, advice: Advice) -> dict[str, Any]:
    attempt = advice.attempt
    return {
        "remedy": attempt.remedy,
        "stage": attempt.stage,
        "because": attempt.because,
        "options": dict(attempt.options),
        "command": command(asked, attempt),
        "examples_per_second": round(advice.rate, 3),
        "gain": round(advice.gain, 4),
        "cpu_seconds": attempt.costs.input_cpu_seconds + attempt.costs.step_cpu_seconds,
        "limits": {name: _number(rate) for name, rate in limits(attempt.costs).items()},
        "note": attempt.note,
    }


def _number(rate: float) -> float | None:
    return round(rate, 3) if math.isfinite(rate) else None


def _megabytes(record_bytes: float, seconds: float | None) -> float | None:
    return None if seconds is None else round(record_bytes / seconds / 1e6, 3)
