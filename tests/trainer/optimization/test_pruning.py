"""--prune: how many weights are 0, that they stay 0, and that a resumed run has the same ones."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tiny

from trainer.events import EpochDone
from trainer.run import train_on


def weights_of(result):
    model = keras.models.load_model(result.model_path)
    return [np.asarray(value) for value in model.trainable_variables]


@pytest.mark.parametrize("ema", [None, 0.9])
def test_kernels_have_the_share_of_zeros_that_was_asked_for(options, ema):
    result = train_on(tiny.data(train=64), options(epochs=5, prune=0.75, ema=ema))
    shares = [epoch.sparsity for epoch in result.history]
    assert shares == sorted(shares) and 0 < shares[1] < 0.75
    assert shares[-1] == pytest.approx(0.75, abs=0.01)
    for value in weights_of(result):
        zeros = np.mean(value == 0.0)
        assert zeros == (pytest.approx(0.75, abs=0.01) if value.ndim > 1 else 0.0)


def test_a_run_without_it_says_nothing_of_zeros(options):
    assert train_on(tiny.data(), options(epochs=1)).final.sparsity is None


class Killed(Exception):
    pass


def test_a_resumed_run_prunes_the_same_weights(options, tmp_path):
    whole = weights_of(train_on(tiny.data(), options(epochs=5, prune=0.5)))

    def kill(event):
        if isinstance(event, EpochDone) and event.epoch == 3:
            raise Killed

    second = options(epochs=5, prune=0.5, run_dir=tmp_path / "resumed")
    with pytest.raises(Killed):
        train_on(tiny.data(), second, kill)
    for one, other in zip(whole, weights_of(train_on(tiny.data(), second)), strict=True):
        np.testing.assert_array_equal(one, other)
