"""What runs have to agree in."""

import json

import keras
import numpy as np
import pytest

# Time is the one thing that no checkpoint can make equal.
TIMED = {"examples_per_second", "input_wait", "tokens_per_second", "wall_seconds", "cpu_seconds"}


def outcome(directory):
    """(weights of the trained model, its history without what is about time)."""
    history = json.loads((directory / "history.json").read_text())
    weights = keras.models.load_model(directory / "model.keras").get_weights()
    return weights, [{k: v for k, v in epoch.items() if k not in TIMED} for epoch in history]


def assert_same(one, other):
    """To the bit."""
    (weights, history), (other_weights, other_history) = map(outcome, (one, other))
    assert all(map(np.array_equal, weights, other_weights))
    assert history == other_history


def assert_near(report, expected, tolerance=1e-5):
    """Checks losses and weights of two reports."""
    for name in ("loss", "val_loss"):
        assert report[name] == pytest.approx(expected[name], abs=tolerance)
    for a, b in zip(report["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
