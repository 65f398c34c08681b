"""Models whose layers are on several devices; these are logical devices of the CPU."""

import itertools
import json

import keras
import numpy as np
import pytest
import tiny
from hypothesis import example, given
from hypothesis import strategies as st
from outcomes import assert_near

from foundation.errors import UsageError
from trainer.pipeline.calls import calls_of
from trainer.pipeline.placement import Cost, balanced, placement_text, read_placement

PIPELINE = {"strategy": "pipeline", "microbatches": 4}


@pytest.fixture
def reports(run_reports):
    return lambda *options: run_reports("pipeline.py", options, 4)


def test_stages_learn_what_one_device_learns(reports):
    """Stages x replicas; layers called twice, masks, penalties; activations that are not kept."""
    parts = {"model": "tiny:branched", "accumulate": 4}
    stages = {"model": "tiny:branched", **PIPELINE, "stages": 4}
    one, rows, many, some, *refused = reports(
        {},
        PIPELINE | {"stages": 2},
        parts,
        stages | {"recompute": True},
        PIPELINE | {"stages": 5},
        PIPELINE | {"stages": 3, "microbatches": 5},
        PIPELINE | {"stages": 4, "model": "tiny:with_code", "microbatches": None},
    )
    assert_near(rows, one)
    assert_near(some, many)
    assert [line.partition(" layer")[0].rpartition(":")[0] for line in rows["notices"]] == [
        "stage 1 of 2 on CPU:0 and CPU:2",
        "stage 2 of 2 on CPU:1 and CPU:3",
    ]
    assert "--stages 5 needs as many devices, and TensorFlow sees 4 CPU" in refused[0]
    assert "--batch-size 16 is not a multiple of 1 x 5" in refused[1]
    assert "divides functional and Sequential models" in refused[2]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("changes", "tolerance"),
    [
        ({"model": "tiny:with_norm"}, 1e-5),
        ({"model": "tiny:with_norm", "epochs": 25}, 1e-5),  # 50 steps
        ({"model": "tiny:branched", "epochs": 25}, 1e-5),
        ({"model": "tiny:branched", "ema": 0.9, "clip_norm": 0.1, "optimizer": "lamb"}, 1e-5),
        ({"model": "tiny:branched", "label_smoothing": 0.1, "optimizer": "sgd"}, 1e-5),
        ({"model": "tiny:branched", "freeze": True}, 1e-5),
        ({"model": "tiny:branched", "precision": "mixed_float16"}, 1e-4),
        ({"model": "tiny:with_norm", "precision": "mixed_bfloat16"}, 1e-2),
        ({"model": "tiny:dense", "prune": 0.5, "epochs": 4}, 1e-5),
    ],
)
def test_every_option_means_what_it_means_on_one_device(reports, changes, tolerance):
    one, two, recomputed, rows = reports(
        changes | {"accumulate": 4},
        changes | PIPELINE | {"stages": 3},
        changes | PIPELINE | {"stages": 4, "recompute": True},
        changes | PIPELINE | {"stages": 2, "microbatches": 2},
    )
    for report in (two, recomputed, rows):
        assert_near(report, one, tolerance)


def test_an_overflow_on_any_stage_skips_the_step_of_all(run_program):
    done = run_program("stage_overflow.py")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [row["scale"] for row in rows] == [1024.0, 512.0, 256.0, 128.0, 128.0, 256.0]
    assert rows[0]["devices"] == ["0", "1", "2"]
    assert rows[0]["weights"] == rows[1]["weights"] == rows[2]["weights"] == rows[3]["weights"]
    for before, after in zip(rows[3]["weights"], rows[4]["weights"], strict=True):
        assert np.isfinite(after)
        assert before != after


@pytest.mark.proof
def test_a_run_goes_on_with_any_number_of_stages(reports, tmp_path):
    model = {"model": "tiny:with_norm", "epochs": 4}
    shared = model | {"run_dir": str(tmp_path / "shared")}
    expected, first, second, third, last = reports(
        model | {"accumulate": 4},
        shared | {"accumulate": 4, "stop_after": 1},
        shared | PIPELINE | {"stages": 4, "stop_after": 2},
        shared | PIPELINE | {"stages": 2, "microbatches": 2, "stop_after": 3},
        shared | {"accumulate": 4},
    )
    assert [first, second, third] == ["stopped"] * 3
    assert_near(last, expected)


def test_a_placement_is_kept_and_can_be_given(reports, tmp_path):
    place = tmp_path / "place.txt"
    place.write_text("1 rescaling\n1 flatten\n1 dense\n2 dense_1\n")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("1 rescaling\n2 flatten\n1 dense\n2 dense_1\n")
    run = {"run_dir": str(tmp_path / "run")} | PIPELINE | {"stages": 2}
    given_one, continued, refused, missing, by_memory = reports(
        run | {"place": str(place), "stop_after": 1},
        run,
        PIPELINE | {"stages": 2, "place": str(wrong)},
        PIPELINE | {"stages": 2, "place": str(tmp_path / "none.txt")},
        PIPELINE | {"stages": 2, "deterministic": True},
    )
    assert given_one == "stopped"
    assert [line.partition(": ")[2] for line in continued["notices"]] == [
        "3 layers from rescaling_1",
        "1 layer from dense_3",
    ]
    assert "does not have the stages 1 to 2 in order" in refused
    assert "none.txt" in missing
    assert not any("of the time" in line for line in by_memory["notices"])


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4),
)
@example([(26, 0, 0), (45, 0, 0), (50, 0, 0), (17, 0, 0)], 1)  # shares whose sum is above 1
def test_no_other_cut_has_a_smaller_greatest_share(numbers, stages):
    costs = [Cost(float(seconds), *sizes) for seconds, *sizes in numbers]
    stages = min(stages, len(costs))
    begins = balanced(costs, stages, 4.0, 8)
    assert len(begins) == stages
    assert begins[0] == 0
    assert sorted(set(begins)) == begins
    least = min(
        greatest_share(costs, [0, *cut])
        for cut in itertools.combinations(range(1, len(costs)), stages - 1)
    )
    assert greatest_share(costs, begins) <= least + 1e-6


def greatest_share(costs, begins):
    measures = (lambda c: c.seconds, lambda c: 4.0 * c.weight_bytes + 8 * c.activation_bytes)
    ends = [*begins[1:], len(costs)]
    return max(
        sum(map(measure, costs[begin:end])) / (sum(map(measure, costs)) or 1.0)
        for begin, end in zip(begins, ends, strict=True)
        for measure in measures
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 a\n", "has 1 line, and the model 4 layers"),
        ("1\n1\n3\n3\n", "does not have the stages 1 to 2 in order"),
        ("2\n1\n1\n2\n", "does not have the stages 1 to 2 in order"),
        ("x\n1\n1 dense\n2\n", "does not have the stages 1 to 2 in order"),
        ("1 rescaling_8\n1 flatten\n\n1 conv2d_2\n2 dense_1\n", "Line 4 of .* layer conv2d_2"),
        (b"\xff\xfe\x00", "is not text"),
    ],
)
def test_a_wrong_placement_is_refused(tmp_path, text, message):
    calls = calls_of(tiny.dense((8, 8, 3), 3))
    path = tmp_path / "stages.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=message):
        read_placement(path, calls, 2)
    path.write_text(placement_text(calls, [0, 3]))
    assert read_placement(path, calls, 2) == [0, 3]


def test_models_within_models_are_taken_apart():
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    inputs = keras.Input((4,))
    frozen = inner(inputs, training=False)  # is one operation, for it says more than its inputs
    model = keras.Model(inputs, keras.layers.Add()([inner(inputs), frozen]))
    names = [call.name.rstrip("_0123456789") for call in calls_of(model).calls]
    assert sorted(names) == ["add", "dense", "dense", "sequential"]


@pytest.mark.parametrize("name", ["stages", "microbatches", "recompute", "place"])
def test_options_of_stages_need_the_strategy(options, name):
    with pytest.raises(UsageError, match=f"--{name} is for --strategy pipeline"):
        options(**{name: True if name == "recompute" else 2 if name != "place" else "file"})
    with pytest.raises(UsageError, match="Pass --microbatches"):
        options(strategy="pipeline", accumulate=2)
