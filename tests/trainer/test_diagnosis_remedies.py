"""Remedies: which apply to real sets, what they are worth at most, and their words and commands."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainer import TrainOptions


@pytest.fixture
def case_of(make_images, build, tmp_path):
    """A training on 48 images of 40 x 46 pixels, seen at 8; decoding takes all of its time."""
    from reader.profiling.stages import ChainTimes, StageTimes
    from reader.profiling.storage_benchmark import StorageTimes
    from trainer.diagnosis.costs import Costs
    from trainer.diagnosis.measuring import open_job
    from trainer.diagnosis.remedies import Case

    def make(encoding: str, augment: str = "standard", **options: object) -> Case:
        build(make_images(48, 3, side=40), split="train=1", resize="none", encoding=encoding)
        asked = {"model": "tiny:dense", "image_size": 8, "batch_size": 8, "augment": augment}
        job = open_job(
            TrainOptions(data=tmp_path / "set", run_dir=tmp_path / "run", **asked | options)
        )
        costs = Costs(0.0, 1.0, {"storage": 0.0, "decode": 1.0}, 0.0, 1e-3, 1e-3, 2, 2)
        stages = StageTimes(StorageTimes(None, 1e-3, 1e-3, 1000.0), True, (), ChainTimes(1.0, 1.0))
        return Case(job, costs, stages)

    return make


def applying(case):
    from trainer.diagnosis.remedies import REMEDIES

    return {name for name, remedy in REMEDIES.items() if remedy.advise(case) is not None}


@pytest.mark.parametrize(
    ("encoding", "remedies"),
    [
        ("jpeg", {"decoded-cache", "smaller-images"}),
        ("png", {"decoded-cache", "smaller-images", "jpeg"}),
        ("webp", {"decoded-cache"}),
        ("raw", set()),
    ],
)
def test_remedies_of_decoding_apply_by_encoding(case_of, encoding, remedies):
    case = case_of(encoding, cache="off")
    assert applying(case) & {"decoded-cache", "smaller-images", "jpeg"} == remedies


def test_smaller_images_give_both_sizes_and_decoded_ones_their_bytes(case_of):
    from trainer.diagnosis.remedies import REMEDIES

    case = case_of("jpeg")
    smaller, decoded = (REMEDIES[name].advise(case) for name in ("smaller-images", "decoded-cache"))
    assert "stored at 40 pixels (shorter side) and seen at 8" in smaller.because
    assert (smaller.new_set, smaller.preprocess) == ("16", "--resize shorter:16")
    assert smaller.remaining == (16 / 40) ** 2
    assert f"{48 * 40 * 46 * 3 / 1024:.1f} KiB" in decoded.because


def test_other_remedies_apply_where_there_is_something_to_improve(case_of, monkeypatch):
    from trainer.diagnosis.remedies import REMEDIES

    monkeypatch.setattr("trainer.precision.cpu_has_bfloat16", lambda: True)
    case = case_of("jpeg", "standard", cache="off", precision="float32")
    assert not applying(case) & {"lighter-augmentation", "buckets", "larger-batch"}
    assert REMEDIES["cache-memory"].advise(case).options == {"--cache": "memory"}
    assert REMEDIES["precision"].advise(case).options == {"--precision": "mixed_bfloat16"}
    launching = dataclasses.replace(case.costs, on_gpu=True)
    larger = REMEDIES["larger-batch"].advise(dataclasses.replace(case, costs=launching))
    assert larger.options == {"--batch-size": "32"}


def test_proposals_are_of_the_slowest_stage_and_in_order_of_gain(case_of):
    from trainer.diagnosis.diagnosing import LEAST_GAIN, propose

    asked = TrainOptions(data=Path("set"), run_dir=Path("x"), model="small_cnn")
    case = case_of("jpeg", cache="off")
    proposals = propose(asked, case, 1.0)
    assert [one.remedy for one in proposals] == ["decoded-cache", "smaller-images"]
    assert [one.stage for one in proposals] == ["decode", "decode"]
    assert proposals[1].rate == pytest.approx(1 / 0.4**2)
    assert proposals[0].gain > proposals[1].gain >= LEAST_GAIN
    stepping = dataclasses.replace(case.costs, step_seconds=2.0)
    assert propose(asked, dataclasses.replace(case, costs=stepping), 0.5) == ()


def diagnosis_of(costs, proposals=()):
    from trainer.diagnosis.costs import judge
    from trainer.diagnosis.diagnosing import Diagnosis

    fields = {field.name: None for field in dataclasses.fields(Diagnosis)}
    return Diagnosis(**fields | {"verdict": judge(costs), "proposals": tuple(proposals)})


def test_a_sentence_gives_the_reason_or_that_there_is_none():
    from trainer.diagnosis.costs import Costs
    from trainer.diagnosis.remedies import Advice

    slow_step = Costs(1e-4, 1e-3, {"parse": 1e-4, "decode": 1e-3}, 0.0, 0.01, 0.015, 2, 2)
    assert diagnosis_of(slow_step).sentence == (
        "Nothing on the input: the model is the limit, and the input pipeline has 10.0 x headroom."
    )
    padded = SimpleNamespace(stage="step", advice=Advice("of a reason"))
    sentence = diagnosis_of(slow_step, [padded]).sentence
    assert sentence == "The bottleneck is the model's step: of a reason."
    slow_decode = dataclasses.replace(slow_step, cpu_seconds={"decode": 0.06, "parse": 0.005})
    assert "decoding images: it takes 75%" in diagnosis_of(slow_decode).sentence


def test_a_command_has_what_was_given_and_what_is_changed():
    from trainer.diagnosis.diagnosing import command_of
    from trainer.diagnosis.remedies import Advice

    asked = TrainOptions(
        data=Path("a set"), run_dir=Path("x"), model="resnet50", batch_size=8, cache="off"
    )
    assert command_of(asked, Advice("", {"--cache": "memory"})) == (
        "shardmill train 'a set' --model resnet50 --batch-size 8 --cache memory"
    )
    smaller = Advice("", new_set="256", preprocess="--resize shorter:256")
    assert command_of(asked, smaller).splitlines() == [
        "shardmill preprocess images SRC... --out 'a set-256' --resize shorter:256",
        "shardmill train 'a set-256' --model resnet50 --batch-size 8 --cache off",
    ]
    pinned = Advice("", launcher="taskset --cpu-list 0-3")
    assert command_of(asked, pinned).startswith("taskset --cpu-list 0-3 shardmill train 'a set' ")
