"""From a shard set through the reader to a trained model."""

import dataclasses
import json

import pytest
import tiny
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from shard_format import InputError, ShardSetError, UsageError
from trainer import train
from trainer.checkpointing.checkpoints import Checkpoints
from trainer.data import open_data


@pytest.mark.proof
def test_a_model_learns_from_a_shard_set(write_set, options):
    write_set(train=70, validation=13)
    events = []
    given = options(model="tiny:with_norm", epochs=12, learning_rate=0.03)
    result = train(given, events.append)
    assert events[0].steps_per_epoch == 8
    assert (events[0].num_train_records, events[0].num_validation_records) == (70, 13)
    assert result.final.val_accuracy * 13 == pytest.approx(round(result.final.val_accuracy * 13))
    assert result.final.val_accuracy > 0.6  # chance is 1/3
    assert json.loads((given.run_dir / "run.json").read_text())["class_names"] == list(tiny.NAMES)


@pytest.mark.proof
def test_two_replicas_train_on_a_shard_set(write_set, run_program, tmp_path):
    directory = write_set(train=32, validation=9)  # the last batch leaves one replica empty
    done = run_program("mirrored_reader.py", directory, tmp_path / "run")
    assert done.returncode == 0, done.stderr[-3000:]
    history = json.loads(done.stdout.splitlines()[-1])
    assert len(history) == 2
    assert history[1]["val_accuracy"] * 9 == pytest.approx(round(history[1]["val_accuracy"] * 9))


def test_the_validation_split_is_the_one_asked_for_or_that_of_this_name(write_set, options):
    write_set(train=16, test=8, validation=9, extra=10)
    records = {
        name: open_data(options(validation_split=name)).validation
        for name in ("auto", "test", "extra", "none")
    }
    assert records["auto"].info.records == 9
    assert records["test"].info.records == 8
    assert records["extra"].info.records == 10
    assert records["none"] is None


def test_no_epoch_is_chosen_on_the_test_split_unless_it_is_asked_for(write_set, options):
    write_set(train=16, validation=0, test=8)
    assert open_data(options()).validation is None
    events = []
    result = train(options(epochs=1), events.append)
    assert events[0].validation_split is None and result.best is None
    assert result.final.val_loss is None and not (result.run_dir / "best.keras").exists()
    given = options(epochs=1, validation_split="test", run_dir=result.run_dir / "asked")
    asked = train(given, events.append)
    assert asked.best_path.exists() and asked.final.val_loss is not None
    with pytest.raises(UsageError, match="--patience 1 needs a validation split"):
        train(options(epochs=1, patience=1, run_dir=result.run_dir / "other"))


def test_a_run_says_what_always_answering_one_class_gives(write_set, options):
    counts = {"class_counts": dict(zip(tiny.NAMES, (1, 6, 1), strict=True))}
    write_set(train=16, validation=8, statistics=counts)
    result = train(options(epochs=1))
    assert dataclasses.astuple(result.baseline) == ("green", "train", 0.75)
    assert "75.0% by always answering 'green', the most" in result.baseline.text


def test_a_kill_behind_a_checkpoint_loses_no_point_of_tensorboard(write_set, options, monkeypatch):
    write_set(train=16, validation=8)
    save = Checkpoints.save

    def save_and_die(self, progress):
        save(self, progress)
        self.wait()  # it is written by a thread, which a kill would not leave alive
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "save", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            train(options(epochs=2))
    result = train(options(epochs=2))
    for part in ("train", "validation"):
        events = EventAccumulator(str(result.run_dir / "tensorboard" / part))
        events.Reload()
        assert [point.step for point in events.Tensors("loss")] == [1, 2]


def test_what_the_set_cannot_give_is_refused(write_set, options):
    directory = write_set(train=16, validation=8)
    with pytest.raises(UsageError, match=r"Unknown training split 'trian' .* of train, validation"):
        train(options(train_split="trian"))
    with pytest.raises(UsageError, match=r"Unknown validation split 'val' .* of train, validation"):
        train(options(validation_split="val"))
    with pytest.raises(UsageError, match="augment"):
        train(options(augment="standrad"))
    with pytest.raises(UsageError, match="batch"):
        train(options(batch_size=17))
    with pytest.raises(ShardSetError, match="There is no directory"):
        train(options(data=directory / "absent"))
    assert not options().run_dir.exists()


def test_a_run_on_the_records_that_a_condition_selects(write_set, options):
    """Validation takes all records, and a run with another condition is another run."""
    write_set(train=60, validation=12)
    first, second, _ = tiny.NAMES
    some = options(where=f"label in ['{first}', '{second}']", epochs=1)
    data = open_data(some)
    stream = data.open_training(None)
    number = stream.info.records
    assert 20 < number < 60 and data.validation.info.records == 12
    steps = stream.steps_per_epoch
    labels = [one for _, batch in stream.dataset.take(steps) for one in batch.numpy().tolist()]
    assert {*labels} == {0, 1}
    events = []
    train(some, events.append)
    assert (events[0].num_train_records, events[0].num_validation_records) == (number, 12)
    record = json.loads((some.run_dir / "run.json").read_text())
    assert record["identity"]["where"] == some.where
    with pytest.raises(InputError, match=r"where was .* is None"):
        train(options(epochs=1))
    with pytest.raises(UsageError, match=r"'size', which is no column of .* Columns are"):
        open_data(options(where="size > 3")).open_training(None)
    with pytest.raises(UsageError, match=r"--where selects records, .* --class-weights"):
        options(where="width > 3", class_weights=True)


def test_a_set_with_one_class_is_refused(write_set, options):
    write_set(class_names=("only",), train=16)
    with pytest.raises(ShardSetError, match="has 1 class, and training needs 2 or more"):
        train(options())


def test_a_set_without_labels_is_refused_with_the_command_that_makes_some(write_set, options):
    write_set(label_shape=None, train=16)
    with pytest.raises(UsageError, match=r"have no labels, .* preprocess images' .* --labels FILE"):
        train(options())
    assert not options().run_dir.exists()


def test_normalized_images_are_trained_on_and_measured_alike(write_set, options):
    pixels = {"mean": [97.5] * 3, "std": [53.0] * 3, "min": [0] * 3, "max": [215] * 3}
    write_set(train=40, validation=13, statistics={"pixels": pixels})
    given = options(model="tiny:with_norm", normalize="zscore", epochs=2)
    data = open_data(given)
    for stream in (data.open_training(None), data.validation):
        images = next(iter(stream.dataset))[0].numpy()
        assert abs(images.mean()) < 0.2 and 0.5 < images.std() < 1.2
    train(given)
    stored = json.loads((given.run_dir / "run.json").read_text())
    assert stored["identity"]["normalize"] == "zscore"
    expected = {"mode": "zscore", "shift": [97.5] * 3, "scale": [53.0] * 3}
    assert stored["normalization"] == expected
    with pytest.raises(InputError, match="normalize was 'zscore', is 'none'"):
        train(options(model="tiny:with_norm", epochs=2))


def test_models_with_a_name_scale_pixels_themselves(options):
    with pytest.raises(
        UsageError,
        match=r"zscore does not work with --model small_cnn: .* --model",
    ):
        options(model="small_cnn", normalize="zscore")
