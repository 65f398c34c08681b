"""A run continues on the generation of its set that it began with."""

import keras
import numpy as np
import pytest
from tiny import Stopped, stop_after

from beam_jobs.generations.compact import compact
from inference.export.trained_run import open_run
from shard_format import InputError, SetReplacedError
from tests.fixtures.proofs import proof
from trainer import Notice, RunStarted, StepsDone, TrainOptions, train


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
    assert (run.manifest.newest, run.class_names) == (0, ("a", "b"))


@pytest.fixture
def appended(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", {f"{'ab'[n % 2]}/old{n}": n for n in range(40)}))
    append_to(write_corpus("new", {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(20)}))
    return tmp_path / "set"


def _options(data, run, **changes):
    common = {"model": "tiny:dense", "image_size": 8, "batch_size": 4, "precision": "float32"}
    return TrainOptions(data, run, **{**common, "epochs": 60, "cache": "off", **changes})


def test_a_run_goes_on_after_its_set_was_compacted_under_it(appended, tmp_path):
    options, events = _options(appended, tmp_path / "run", checkpoint_minutes=0), []

    def compact_at_step(event):
        if isinstance(event, StepsDone) and event.epoch == 2 and event.phase == "train":
            compact(appended)

    with pytest.raises(SetReplacedError, match="was compacted or built again while it was read"):
        train(options, compact_at_step)
    result = train(options, events.append)
    assert len(result.history) == 60
    (compacted,) = [event for event in events if isinstance(event, Notice)]
    (started,) = [event for event in events if isinstance(event, RunStarted)]
    assert compacted.text.startswith(f"{appended} was compacted: ")
    assert f"behind step {started.first_step} of epoch {started.first_epoch}, " in compacted.text
    assert started.first_epoch >= 2
    # It is now a run of the compacted set.
    assert train(options, events.append).history == result.history


@proof
def test_a_run_is_killed_again_before_it_has_a_new_checkpoint(appended, tmp_path):
    options = _options(appended, tmp_path / "run", epochs=3)
    with pytest.raises(Stopped):
        train(options, stop_after(1))
    compact(appended)
    for _ in range(2):
        with pytest.raises(Stopped):
            train(options, stop_at_start)
    assert len(train(options).history) == 3


def stop_at_start(event):
    if isinstance(event, RunStarted):
        raise Stopped


def test_a_run_does_not_go_on_without_removed_records(appended, tmp_path):
    options = _options(appended, tmp_path / "run", epochs=3)
    with pytest.raises(Stopped):
        train(options, stop_after(1))
    compact(appended, ["a/new0.jpg"])
    with pytest.raises(InputError, match="root_hash was"):
        train(options)


def test_a_finished_run_is_exported_after_a_compaction(appended, tmp_path):
    options = _options(appended, tmp_path / "run", epochs=1)
    train(options)
    compact(appended)
    assert open_run(options.run_dir).class_names == ("a", "b")
