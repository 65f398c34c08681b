import json

import keras
import numpy as np
import pytest
import tiny

from trainer.run import train_on


def last_json(process):
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.proof
def test_two_replicas_learn_what_one_learns(run_program):
    results = [last_json(run_program("replicas.py", count)) for count in (1, 2)]
    for optimizer in ("sgd", "adamw"):
        one, two = (result[optimizer] for result in results)
        assert (one["num_replicas"], two["num_replicas"]) == (1, 2)
        for a, b in zip(one["weights"], two["weights"], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
        # 13 examples in batches of 8: the last batch is partial, and uneven between the replicas
        assert two["val_loss"] == pytest.approx(one["val_loss"], rel=1e-4)
        assert two["val_accuracy"] == one["val_accuracy"]


def test_overflow_on_any_replica_skips_the_step_and_halves_the_scale(run_program):
    rows = last_json(run_program("loss_scale.py"))
    assert [row["scale"] for row in rows] == [1024.0, 512.0, 256.0, 256.0, 512.0]
    assert [row["applied"] for row in rows] == [1, 1, 1, 2, 3]
    for row in rows:
        assert np.isfinite(row["weights"]).all()
        assert row["weights"][0] == row["weights"][1]
    assert rows[0]["weights"] == rows[1]["weights"] == rows[2]["weights"] != rows[3]["weights"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.proof),
        pytest.param({"accumulate": 1}, marks=pytest.mark.proof),
        pytest.param({"jit": True}, marks=pytest.mark.proof),
        pytest.param({"accumulate": 2, "optimizer": "lamb"}, marks=pytest.mark.proof),
    ],
)
def test_parts_clipping_and_averages_are_those_of_one_device(
    run_program, options, tmp_path, changes
):
    """The norm is that of the sum over replicas, and a part is one of each replica's share."""
    given = {"optimizer": "sgd", "clip_norm": 0.5, "ema": 0.8, "learning_rate": 0.05} | changes
    whole = train_on(tiny.data(), options(**{**given, "accumulate": 1}))
    same = {name: getattr(options(), name) for name in ("model", "image_size", "batch_size")}
    same |= {"epochs": 2, "precision": "float32", "strategy": "mirrored"}
    parts = json.dumps(same | {"accumulate": 4} | given)
    done = run_program("steps.py", tmp_path / "parts", parts)
    assert done.returncode == 0, done.stderr[-3000:]
    model = keras.models.load_model(tmp_path / "parts" / "model.keras")
    expected = keras.models.load_model(whole.model_path)
    for a, b in zip(expected.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    last = json.loads((tmp_path / "parts" / "history.json").read_text())[-1]
    assert last["loss"] == pytest.approx(whole.final.loss, rel=1e-5)
    assert last["val_loss"] == pytest.approx(whole.final.val_loss, rel=1e-5)
