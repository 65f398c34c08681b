"""A run continues on the generation of its set that it began with."""

import keras
import numpy as np
import pytest
from tiny import Stopped, stop_after

from shard_format import InputError
from trainer import TrainOptions, train
from trainer.export.trained_run import open_run


def test_a_run_continues_after_its_set_has_grown(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", {f"{'ab'[n % 2]}/old{n}": n for n in range(40)}))
    common = {"model": "tiny:dense", "image_size": 8, "batch_size": 4, "precision": "float32"}

    def options(name, generation=None):
        run = tmp_path / name
        return TrainOptions(tmp_path / "set", run, epochs=2, generation=generation, **common)

    whole = train(options("whole"))
    with pytest.raises(Stopped):
        train(options("cut"), stop_after(1))
    append_to(write_corpus("new", {"a/new": 100, "c/more": 101}))
    with pytest.raises(InputError, match=r"root_hash was .* or --generation 0 to continue it"):
        train(options("cut"))
    cut = train(options("cut", generation=0))
    weights = [keras.models.load_model(one.model_path).get_weights() for one in (whole, cut)]
    assert all(map(np.array_equal, *weights))
    # What is exported knows the classes of its own generation.
    run = open_run(tmp_path / "whole")
    assert (run.generation, run.class_names) == (0, ("a", "b"))
