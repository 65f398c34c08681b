"""From measured costs to the bottleneck, and the command on real sets."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainer.diagnosis.costs import (
    STAGES,
    Costs,
    judge,
    limits,
    predicted_rate,
    stage_rates,
    stage_shares,
    with_cheaper_stage,
)

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
    typical = Costs(
        storage_seconds=0.0001,
        input_seconds=0.001,
        cpu_seconds={"storage": 0.0001, "parse": 0.0001, "decode": 0.0008, "augment": 0.0002},
        copy_seconds=0.0,
        step_seconds=0.01,
        step_cpu_seconds=0.015,
        cores=2,
        machine_cores=2,
    )
    return dataclasses.replace(typical, **changes)  # type: ignore[arg-type]


@given(costs())
def test_the_verdict_is_the_station_with_the_least_rate(found: Costs) -> None:
    verdict = judge(found)
    rates = limits(found)
    assert rates[verdict.station] == min(rates.values()) == predicted_rate(found)
    assert 0 <= verdict.share <= 1
    assert verdict.headroom >= 1 or math.isclose(verdict.headroom, 1)


@given(costs())
def test_the_stage_takes_the_most_of_the_station(costs: Costs) -> None:
    verdict, shares = judge(costs), stage_shares(costs)
    if verdict.stage == "cores":
        assert costs.cores < costs.machine_cores
        assert verdict.station in ("input", "cores")
    else:
        assert math.isclose(sum(shares.values()), 1) or not any(shares.values())
        assert shares[verdict.stage] == max(shares.values())
        assert verdict.stage in STAGES


@given(costs())
def test_where_cores_bind_the_slowest_stage_is_named(found: Costs) -> None:
    work = found.cpu_seconds | {"step": found.step_cpu_seconds}
    assume(sum(work.values()))
    nothing = dict.fromkeys(("storage_seconds", "copy_seconds", "input_seconds"), 0.0)
    nothing["step_seconds"] = 1e-12
    verdict = judge(dataclasses.replace(found, machine_cores=found.cores, **nothing))
    assert verdict.station == "cores"
    assert work[verdict.stage] == max(work.values())


@given(costs(), st.sampled_from([*STAGES, "cores"]), st.floats(0, 1))
def test_making_a_stage_cheaper_never_costs(costs: Costs, stage: str, remaining: float) -> None:
    cheaper = predicted_rate(with_cheaper_stage(costs, stage, remaining))
    assert cheaper >= predicted_rate(costs) * (1 - 1e-9)


def test_a_cheaper_stage_moves_the_limit_to_the_next_one() -> None:
    slow = example(storage_seconds=0.1)  # 10 a second; all else could do 100
    assert predicted_rate(with_cheaper_stage(slow, "storage", 0.5)) == pytest.approx(20)
    assert predicted_rate(with_cheaper_stage(slow, "storage", 0.0)) == pytest.approx(100)
    one_core = example(cores=1, step_cpu_seconds=0.0088, machine_cores=2)
    assert predicted_rate(with_cheaper_stage(one_core, "cores", 0.0)) == pytest.approx(200)


def test_the_first_of_equal_stations_is_the_slowest() -> None:
    even = example(storage_seconds=0.01, step_seconds=0.01, step_cpu_seconds=0.0)
    assert judge(even).station == "storage"


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
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bottleneck"]["stage"] in {*STAGES, "cores"}
    assert report["examples_per_second"] > 0
    assert set(report["stages"]) == {*STAGES} - {"batch"}  # which is of token ids alone
    assert report["stages"]["decode"]["cpu_seconds"] > 0
    assert report["storage"]["record_bytes"] > 0
    for advice in report["advice"]:
        assert advice["gain"] > 1
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
