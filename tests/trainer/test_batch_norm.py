"""Batch normalization takes the statistics of the whole batch, however many devices share it."""

import json

import keras
import numpy as np
import pytest
import tiny

from shard_format import UsageError
from tests.fixtures.proofs import proofs
from trainer.models.batch_norm import as_built, set_synchronized, statistics_of
from trainer.run import train_on

SYNCHRONIZED, PER_DEVICE = "synchronized", "per device"


def test_layers_within_layers_of_the_user_are_found():
    model = tiny.norm_within_a_layer((8, 8, 3), 3)
    assert [statistics_of(model, replicas) for replicas in (1, 2)] == [None, PER_DEVICE]
    (layer,) = set_synchronized(model, True)
    assert (layer, layer.synchronized) == (model.layers[0].norms[0], True)
    assert statistics_of(model, 2) == SYNCHRONIZED
    assert set_synchronized(model, True) == ()
    assert statistics_of(tiny.dense((8, 8, 3), 3), 2) is None


def test_a_model_is_saved_as_it_was_built(tmp_path):
    """Keras refuses a synchronized layer under JAX and PyTorch."""
    model = tiny.with_norm((8, 8, 3), 3)
    changed = set_synchronized(model, True)
    with as_built(changed):
        model.save(tmp_path / "model.keras")
    assert statistics_of(model, 2) == SYNCHRONIZED
    assert statistics_of(keras.models.load_model(tmp_path / "model.keras"), 2) == PER_DEVICE


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"accumulate": 2}, "--accumulate"),
        ({"jit": True}, "--jit"),
        ({"strategy": "parameter_server"}, "--strategy parameter_server"),
    ],
)
def test_what_does_not_allow_a_sum_within_the_model_is_named(options, changes, named):
    with pytest.raises(UsageError, match=f"--sync-batch-norm sums .* which {named} does not allow"):
        options(sync_batch_norm=True, **changes)
    options(sync_batch_norm=False, **changes)


@pytest.fixture
def mirrored(run_program, options, tmp_path):
    """Trains on 2 devices; gives the run directory."""

    def train(name, **given):
        same = {key: getattr(options(), key) for key in ("image_size", "batch_size", "epochs")}
        same |= {"precision": "float32", "strategy": "mirrored"}
        done = run_program("steps.py", tmp_path / name, json.dumps({**same, **given}))
        assert done.returncode == 0, done.stderr[-3000:]
        return tmp_path / name

    return train


def batch_norm_of(run):
    return json.loads((run / "run.json").read_text())["batch_norm"]


@pytest.mark.parametrize("model", ["with_norm", *proofs("small_cnn")])
def test_two_devices_learn_what_one_learns(mirrored, options, model):
    """Without dropout, that is; small_cnn is the default model."""
    given = {"model": f"tiny:{model}_without_dropout", "optimizer": "sgd", "learning_rate": 0.05}
    one = train_on(tiny.data(), options(**given))
    two = mirrored("two", sync_batch_norm=True, **given)
    assert [batch_norm_of(run) for run in (one.run_dir, two)] == [None, SYNCHRONIZED]
    # Sums in another order, and E[x^2] - E[x]^2 for a variance: rounding, step after step.
    last = json.loads((two / "history.json").read_text())[-1]
    assert last["loss"] == pytest.approx(one.final.loss, abs=1e-5)
    assert last["val_loss"] == pytest.approx(one.final.val_loss, abs=1e-5)
    models = [keras.models.load_model(run / "model.keras") for run in (one.run_dir, two)]
    for a, b in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"model": "small_cnn"}, SYNCHRONIZED),
        ({"model": "mobilenet_v2", "image_size": 32}, SYNCHRONIZED),
        ({"model": "small_cnn", "sync_batch_norm": False}, PER_DEVICE),
        ({"model": "small_cnn", "jit": True}, PER_DEVICE),
        ({"model": "tiny:with_norm"}, PER_DEVICE),
    ],
)
def test_models_with_a_name_are_synchronized_where_that_is_possible(mirrored, given, expected):
    assert batch_norm_of(mirrored("run", **given, epochs=1)) == expected
