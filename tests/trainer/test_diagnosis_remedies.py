"""Remedies on real sets: which apply, and that what they try can be read at all."""

from __future__ import annotations

import pytest

from tests.fixtures.proofs import each_value_once
from trainer import TrainOptions

SECONDS = 0.05


@pytest.fixture
def case_of(make_images, build, tmp_path):
    """A job on 48 images of 40 x 46 pixels, seen at 8; its costs are those of a step alone."""
    from reader.profiling.stages import ChainTimes, StageTimes
    from reader.profiling.storage_benchmark import StorageTimes
    from trainer.diagnosis.costs import Costs
    from trainer.diagnosis.job import open_job
    from trainer.diagnosis.measuring import StepTimes
    from trainer.diagnosis.remedies import Case

    def make(encoding: str, augment: str = "standard", **options: object) -> Case:
        build(make_images(48, 3, side=40), split="train=1", resize="none", encoding=encoding)
        asked = {"model": "tiny:dense", "image_size": 8, "batch_size": 8, "augment": augment}
        job = open_job(
            TrainOptions(data=tmp_path / "set", run_dir=tmp_path / "run", **asked | options)
        )
        costs = Costs(0.0, 1.0, {"storage": 0.0, "decode": 1.0}, 0.0, 1e-3, 1e-3, 2, 2)
        chain = ChainTimes(1.0, 1.0)
        stages = StageTimes(StorageTimes(None, 1e-3, 1e-3, 1000.0), True, (), chain)
        return Case(job, SECONDS, costs, stages, StepTimes(1e-3, 1e-3, 0.0))

    return make


APPLYING = {
    "jpeg": {"decoded-cache", "smaller-images"},
    "png": {"decoded-cache", "smaller-images", "jpeg"},
    "webp": {"decoded-cache"},
    "raw": set(),
}


@pytest.mark.parametrize(
    ("augment", "encoding"), each_value_once(["none", "standard"], list(APPLYING))
)
def test_remedies_of_decoding(case_of, encoding, augment) -> None:
    from trainer.diagnosis.remedies import REMEDIES

    case = case_of(encoding, augment, cache="off")
    attempts = {
        name: REMEDIES[name].attempt(case) for name in ("decoded-cache", "smaller-images", "jpeg")
    }
    assert {name for name, attempt in attempts.items() if attempt is not None} == APPLYING[encoding]
    for attempt in attempts.values():
        if attempt is not None:
            assert attempt.stage == "decode"
            assert 0 < attempt.costs.input_cpu_seconds < 1
            assert attempt.costs.step_seconds == case.costs.step_seconds


def test_smaller_images_say_both_sizes_and_decoded_ones_their_bytes(case_of) -> None:
    from trainer.diagnosis.remedies import REMEDIES

    case = case_of("jpeg")
    smaller, decoded = (
        REMEDIES[name].attempt(case) for name in ("smaller-images", "decoded-cache")
    )
    assert smaller is not None
    assert "stored at 40 pixels (shorter side) and seen at 8" in smaller.because
    assert "--resize shorter:16" in smaller.command
    assert decoded is not None
    assert f"{48 * 40 * 46 * 3 / 1024:.1f} KiB" in decoded.because


def test_other_remedies_apply_where_there_is_something_to_mend(case_of) -> None:
    from trainer.diagnosis.remedies import REMEDIES

    case = case_of("jpeg", "standard", cache="off", precision="float32")
    assert REMEDIES["lighter-augmentation"].attempt(case) is None
    assert REMEDIES["buckets"].attempt(case) is None
    assert REMEDIES["all-cores"].attempt(case) is None
    cached = REMEDIES["cache-memory"].attempt(case)
    assert cached is not None
    assert cached.options == {"--cache": "memory"}
    assert cached.costs.storage_seconds == 0
    precision = REMEDIES["precision"].attempt(case)
    assert precision is not None
    assert precision.options == {"--precision": "mixed_bfloat16"}
