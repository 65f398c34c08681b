"""From measured numbers to a verdict and advice; and one job on which all of it is run."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainer import TrainOptions
from trainer.diagnosis.advice import LEAST_GAIN, Attempt, rank
from trainer.diagnosis.costs import Costs, limits, predicted_rate, stage_rates
from trainer.diagnosis.verdict import judge, shares
from trainer.diagnosis.wording import NOUNS, command, sentence

INPUT_STAGES = ("storage", "parse", "decode", "augment", "batch")
seconds = st.floats(1e-7, 10)
maybe_nothing = st.one_of(st.just(0.0), seconds)


@st.composite
def costs(draw: st.DrawFn) -> Costs:
    machine = draw(st.integers(1, 64))
    return Costs(
        storage_seconds=draw(maybe_nothing),
        input_seconds=draw(seconds),
        cpu_seconds={name: draw(maybe_nothing) for name in INPUT_STAGES},
        copy_seconds=draw(maybe_nothing),
        step_seconds=draw(seconds),
        step_cpu_seconds=draw(maybe_nothing),
        cores=draw(st.integers(1, machine)),
        machine_cores=machine,
        on_gpu=draw(st.booleans()),
    )


def example(**changes: object) -> Costs:
    """One in which the model's step is what takes time: 2 cores, 100 examples/s."""
    found = Costs(
        storage_seconds=0.0001,
        input_seconds=0.001,
        cpu_seconds={"storage": 0.0001, "parse": 0.0001, "decode": 0.0008, "augment": 0.0002},
        copy_seconds=0.0,
        step_seconds=0.01,
        step_cpu_seconds=0.015,
        cores=2,
        machine_cores=2,
    )
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type]


def attempt(
    costs: Costs, remedy: str = "something", stage: str = "step", **fields: object
) -> Attempt:
    values = {"because": "of a reason", "options": {}} | fields
    return Attempt(remedy, stage, costs=costs, **values)  # type: ignore[arg-type]


@given(costs())
def test_the_verdict_is_the_station_with_the_least_rate(found: Costs) -> None:
    verdict = judge(found)
    rates = limits(found)
    assert rates[verdict.station] == min(rates.values()) == verdict.rate == predicted_rate(found)
    assert 0 <= verdict.share <= 1
    assert verdict.headroom >= 1 or math.isclose(verdict.headroom, 1)


@given(costs())
def test_the_stage_takes_the_most_of_the_station(found: Costs) -> None:
    verdict, held = judge(found), shares(found)
    assert math.isclose(sum(held.values()), 1) or not any(held.values())
    if verdict.stage == "cores":
        assert found.cores < found.machine_cores
        assert verdict.station in ("input", "cores")
    else:
        assert held[verdict.stage] == max(held.values())
        assert verdict.stage in NOUNS


@given(costs())
def test_where_cores_bind_the_slowest_stage_is_named(found: Costs) -> None:
    work = found.cpu_seconds | {"step": found.step_cpu_seconds}
    assume(sum(work.values()))
    nothing = dict.fromkeys(("storage_seconds", "copy_seconds", "input_seconds"), 0.0)
    nothing["step_seconds"] = 1e-12
    verdict = judge(dataclasses.replace(found, machine_cores=found.cores, **nothing))
    assert verdict.station == "cores"
    assert work[verdict.stage] == max(work.values())


@given(costs(), st.floats(1, 1e6), st.lists(costs(), max_size=5))
def test_gains_are_worth_it_and_in_order(found: Costs, rate: float, others: list[Costs]) -> None:
    advice = rank(found, rate, [attempt(other) for other in others])
    gains = [each.gain for each in advice]
    assert gains == sorted(gains, reverse=True)
    assert all(gain >= LEAST_GAIN for gain in gains)
    for each in advice:
        assert math.isclose(each.rate, each.gain * rate)


@given(costs(), st.lists(costs(), max_size=5))
def test_a_model_that_is_right_is_believed(found: Costs, others: list[Costs]) -> None:
    for each in rank(found, predicted_rate(found), [attempt(other) for other in others]):
        assert math.isclose(each.rate, predicted_rate(each.attempt.costs))


def test_only_what_was_measured_is_corrected() -> None:
    slow = example(storage_seconds=0.1)  # 10 a second; all else could do 100
    half, none = example(storage_seconds=0.05), example(storage_seconds=0.0)
    rates = [each.rate for each in rank(slow, 7.0, [attempt(half), attempt(none)])]
    assert rates == pytest.approx([100.0, 14.0])
    # Cores and a step on them are one: what is lost there is lost after the change too.
    (better,) = rank(
        example(), 70.0, [attempt(example(step_seconds=0.004, step_cpu_seconds=0.008))]
    )
    assert better.rate == pytest.approx(0.7 * predicted_rate(better.attempt.costs))
    assert judge(better.attempt.costs).station == "cores" != judge(example()).station


@given(costs(), st.sampled_from(INPUT_STAGES), st.floats(0, 1))
def test_making_a_stage_cheaper_never_costs(found: Costs, stage: str, factor: float) -> None:
    cheaper = dict(found.cpu_seconds)
    cheaper[stage] *= factor
    assert predicted_rate(dataclasses.replace(found, cpu_seconds=cheaper)) >= predicted_rate(found)


def test_equal_stations_and_equal_trials_keep_their_order() -> None:
    even = example(storage_seconds=0.01, step_seconds=0.01, step_cpu_seconds=0.0)
    assert judge(even).station == "storage"
    better = example(step_seconds=0.005, step_cpu_seconds=0.005)
    advice = rank(example(), 100.0, [attempt(better, "first"), attempt(better, "second")])
    assert [each.attempt.remedy for each in advice] == ["first", "second"]
    assert rank(example(), 100.0, [attempt(example())]) == ()


def test_what_takes_cores_adds_up_and_devices_do_not() -> None:
    on_cpu = example()
    assert math.isclose(predicted_rate(on_cpu), 100.0)
    busier = example(step_seconds=0.0076)  # the step itself has become faster than the cores
    assert math.isclose(predicted_rate(busier), 2 / (0.015 + 0.0012))
    on_gpu = example(step_cpu_seconds=0.0001, on_gpu=True)
    assert math.isclose(predicted_rate(on_gpu), 100.0)
    assert math.isclose(stage_rates(on_gpu)["decode"], 2 / 0.0008)
    assert stage_rates(on_gpu)["copy"] == math.inf


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({}, "step"),
        ({"storage_seconds": 0.1}, "storage"),
        ({"copy_seconds": 0.1}, "copy"),
        ({"cpu_seconds": {"decode": 0.05, "augment": 0.01}}, "decode"),
        ({"cpu_seconds": {"decode": 0.01, "augment": 0.05}}, "augment"),
        ({"cpu_seconds": {"decode": 0.05}, "cores": 1}, "cores"),
        ({"storage_seconds": 0.1, "cores": 1}, "storage"),
    ],
)
def test_the_bottleneck_has_its_name(changes: dict[str, object], stage: str) -> None:
    assert judge(example(**changes)).stage == stage


def test_a_sentence_says_why_or_that_there_is_nothing() -> None:
    verdict = judge(example())
    assert sentence(verdict, ()) == (
        "Nothing on the input: the model is the limit, and the input pipeline has 10.0 x headroom."
    )
    padded = rank(example(), 100.0, [attempt(example(step_seconds=0.005, step_cpu_seconds=0.001))])
    assert sentence(verdict, padded) == "The bottleneck is the model's step: of a reason."
    decoding = judge(example(cpu_seconds={"decode": 0.06, "parse": 0.005}))
    assert "decoding images: it takes 75%" in sentence(decoding, ())


def test_a_command_has_what_was_given_and_what_is_changed() -> None:
    asked = TrainOptions(data="a set", run_dir="x", model="resnet50", batch_size=8, cache="off")
    cached = attempt(example(), options={"--cache": "memory"})
    assert command(asked, cached) == (
        "shardmill train 'a set' --model resnet50 --batch-size 8 --cache memory"
    )
    made = "shardmill preprocess images SRC... --out DIR-256 --resize shorter:256"
    assert command(asked, attempt(example(), command=made)).splitlines() == [
        "shardmill preprocess images SRC... --out 'a set-256' --resize shorter:256",
        "shardmill train 'a set-256' --model resnet50 --batch-size 8 --cache off",
    ]
    pinned = attempt(example(), command="taskset --cpu-list 0-3")
    assert command(asked, pinned).startswith("taskset --cpu-list 0-3 shardmill train 'a set' ")


@pytest.fixture
def photographs(make_images, build, tmp_path):
    """A set of 48 images of 32 pixels; the folder."""
    build(make_images(48, 3, side=40), split="train=1")
    return tmp_path / "set"


@pytest.mark.proof
def test_doctor_names_measures_and_writes_nothing(photographs, shardmill) -> None:
    before = sorted(path.name for path in photographs.parent.rglob("*"))
    done = shardmill(
        "doctor", photographs, "--image-size", 16, "--batch-size", 8, "--seconds", 0.1, "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["bottleneck"]["stage"] in NOUNS
    assert found["examples_per_second"] > 0
    assert set(found["stages"]) == {
        "storage",
        "parse",
        "decode",
        "augment",
        "batch",
        "copy",
        "step",
    }
    assert found["stages"]["decode"]["cpu_seconds"] > 0
    assert found["storage"]["record_bytes"] > 0
    for advice in found["advice"]:
        assert advice["gain"] >= LEAST_GAIN
        assert advice["command"].splitlines()[-1].startswith(("shardmill train", "taskset"))
    assert sorted(path.name for path in photographs.parent.rglob("*")) == before


@pytest.mark.proof
def test_doctor_tells_a_person(token_set, shardmill) -> None:
    documents = [([1 + n % 7] * (1 + n % 30), n % 2) for n in range(64)]
    data = token_set(train=documents)
    done = shardmill(
        *("doctor", data, "--max-tokens", 16, "--batch-size", 8, "--buckets", 1),
        *("--seconds", 0.1, "--cache", "off", "--augment", "none"),
    )
    assert done.returncode == 0, done.stderr
    assert "bottleneck" in done.stdout
    assert "from the page cache" in done.stdout
    assert "Nothing on the input" in done.stdout or "The bottleneck is" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere",), 3, "nowhere"),
        (("set", "--model", "resnet5"), 2, "Did you mean 'resnet50'?"),
        (("set", "--seconds", 0), 2, "--seconds"),
        (("set", "--seconds", "nan"), 2, "--seconds is nan. Pass a finite number above 0"),
        (("set", "--buckets", 4), 2, "--buckets 4 does not apply to images"),
        (("set", "--batch-size", 1000), 2, "Pass 48 or less"),
    ],
)
def test_doctor_refuses_in_words(photographs, shardmill, arguments, code, said) -> None:
    target = photographs if arguments[0] == "set" else photographs.parent / arguments[0]
    done = shardmill("doctor", target, *arguments[1:])
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
