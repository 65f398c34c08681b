import dataclasses
import json

import keras
import numpy as np
import pytest
import tiny
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
from tiny import Stopped, stop_after

from shard_format import InputError, UsageError
from trainer import EpochDone, RunDone, RunStarted, StepsDone, TrainingError
from trainer.run import train_on


def scalars(directory):
    accumulator = EventAccumulator(str(directory)).Reload()
    return {
        tag: [(e.step, float(make_ndarray(e.tensor_proto))) for e in accumulator.Tensors(tag)]
        for tag in accumulator.Tags()["tensors"]
    }


def test_a_run_leaves_a_model_a_history_and_tensorboard_files(options):
    given = options(epochs=3, precision="mixed_float16", keep_checkpoints=2)
    events = []
    result = train_on(tiny.data(), given, events.append)

    assert [epoch.epoch for epoch in result.history] == [1, 2, 3]
    history = json.loads((given.run_dir / "history.json").read_text())
    assert history == [dataclasses.asdict(epoch) for epoch in result.history]
    assert set(history[0]) >= {"loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"}
    assert history[0]["loss_scale"] == 2.0**15
    assert all(0 <= epoch["input_wait"] <= 1 for epoch in history)

    images, labels = tiny.make_images(13, 8, 1)
    predicted = keras.models.load_model(result.model_path).predict(images, verbose=0)
    assert (predicted.argmax(axis=1) == labels).mean() == pytest.approx(result.final.val_accuracy)

    record = json.loads((given.run_dir / "run.json").read_text())
    assert record["identity"]["root_hash"] == "0" * 64
    assert record["class_names"] == list(tiny.NAMES)
    assert set(record["versions"]) == {"shardmill", "python", "tensorflow", "keras", "numpy"}
    assert record["final"] == history[-1]
    assert record["devices"][0].startswith("CPU ")

    written = scalars(given.run_dir / "tensorboard" / "train")
    assert set(written) == {
        "loss", "accuracy", "learning_rate", "examples_per_second", "loss_scale", "input_wait",
        "wall_seconds", "cpu_seconds",
    }  # fmt: skip
    measured = scalars(given.run_dir / "tensorboard" / "validation")
    assert [step for step, _ in measured["loss"]] == [1, 2, 3]
    assert measured["accuracy"][2][1] == pytest.approx(result.final.val_accuracy)

    checkpoints = {path.name for path in (given.run_dir / "checkpoints").iterdir()}
    assert {"ckpt-2.index", "ckpt-3.index"} <= checkpoints
    assert "ckpt-1.index" not in checkpoints

    assert isinstance(events[0], RunStarted)
    assert events[0].precision == "mixed_float16"
    assert (events[0].num_train_records, events[0].num_validation_records) == (32, 13)
    assert isinstance(events[-1], RunDone)
    steps = [e for e in events if isinstance(e, StepsDone) and e.epoch == 2]
    assert [(e.phase, e.step) for e in steps if e.step == e.num_steps] == [
        ("train", 4), ("validation", 2),
    ]  # fmt: skip
    assert [e for e in events if isinstance(e, EpochDone)] == list(result.history)


def test_it_learns(options):
    given = options(model="small_cnn", image_size=16, epochs=6, precision="mixed_bfloat16")
    result = train_on(tiny.data(size=16, train=64, validation=60), given)
    assert result.final.val_accuracy > 0.8  # chance is 1/3
    assert result.final.learning_rate < 1e-4


def test_equal_options_give_equal_weights_to_the_bit(options, tmp_path):
    results = [
        train_on(tiny.data(), options(model="tiny:with_norm", run_dir=tmp_path / name, seed=seed))
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    ]
    a, b, c = (keras.models.load_model(result.model_path).get_weights() for result in results)
    assert all(map(np.array_equal, a, b))
    assert not all(map(np.array_equal, a, c))
    assert [epoch.loss for epoch in results[0].history] == [e.loss for e in results[1].history]


def test_a_finished_run_is_not_trained_again(options):
    given = options()
    first = train_on(tiny.data(), given)
    events = []
    again = train_on(tiny.data(), given, events.append)
    assert again.history == first.history
    assert [type(event) for event in events] == [RunStarted, RunDone]


def test_a_finished_run_takes_more_epochs_and_one_under_way_does_not(options):
    given = options(epochs=2)
    more = dataclasses.replace(given, epochs=4)
    with pytest.raises(Stopped):
        train_on(tiny.data(), given, stop_after(1))
    with pytest.raises(InputError, match="epochs was 2, is 4"):
        train_on(tiny.data(), more)
    first = train_on(tiny.data(), given)
    events = []
    with pytest.raises(Stopped):  # and resumes like any other
        train_on(tiny.data(), more, stop_after(3))
    result = train_on(tiny.data(), more, events.append)
    assert events[0].first_epoch == 4 and len(result.history) == 4
    assert result.history[:2] == first.history
    # The schedule is that of four epochs: the rate is not 0 behind the second.
    assert result.history[2].learning_rate > result.history[3].learning_rate
    record = json.loads((given.run_dir / "run.json").read_text())
    assert record["identity"]["epochs"] == record["final"]["epoch"] == 4
    with pytest.raises(InputError, match="epochs was 4, is 2"):
        train_on(tiny.data(), given)


def test_another_run_is_refused_and_says_what_differs(options):
    train_on(tiny.data(), options())
    with pytest.raises(InputError, match=r"learning_rate was 0.002, is 0.1; seed was 0, is 7"):
        train_on(tiny.data(), options(seed=7, learning_rate=0.1))
    other = dataclasses.replace(tiny.data(), root_hash="1" * 64)
    with pytest.raises(InputError, match=r"root_hash was '0000.*is '1111"):
        train_on(other, options())
    train_on(tiny.data(), options(data="moved", keep_checkpoints=5))  # the same run


def test_a_directory_with_other_content_is_refused(options):
    given = options()
    given.run_dir.mkdir()
    (given.run_dir / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"other files and no run\.json"):
        train_on(tiny.data(), given)


def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_the_directory_free(options):
    # a step of this size takes the weights, and with them the logits, out of float32
    with pytest.raises(TrainingError, match=r"The loss is \w+ at step \d of 4 .* epoch"):
        train_on(tiny.data(), options(optimizer="sgd", learning_rate=1e38, warmup_epochs=0.0))
    train_on(tiny.data(), options())


def test_options_that_do_not_fit_leave_no_run_behind(options):
    with pytest.raises(UsageError, match="--batch-size 64 exceeds the 32 training records"):
        train_on(tiny.data(batch_size=64), options(batch_size=64))
    with pytest.raises(UsageError, match="has no weights to train"):
        train_on(tiny.data(), options(model="tiny:no_weights"))
    assert not options().run_dir.exists()


def test_training_without_validation(options):
    given = options(epochs=1)
    result = train_on(dataclasses.replace(tiny.data(), validation=None), given)
    assert result.final.val_loss is None
    assert result.final.val_accuracy is None
    assert scalars(given.run_dir / "tensorboard" / "validation") == {}
