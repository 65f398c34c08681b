import json

import numpy as np
import pytest


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
