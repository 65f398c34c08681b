"""What a run shows: figures, tables, points of steps."""

import csv
import dataclasses
import io
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trainer import EpochDone
from trainer.monitoring import records
from trainer.monitoring.confusion import Confusion
from trainer.monitoring.figures import confusion_matrix, learning_curve, sample_predictions
from trainer.monitoring.samples import SamplePrediction, Samples, table
from trainer.run import train_on

NASTY = ("$cost", "a_long_name_of_a_class_that_does_not_fit", "two\nlines", "服装", "<b>")


def pixels(png):
    return tf.io.decode_png(png, channels=3).numpy()


def epoch(number, **values):
    fields = {"loss": 1.0, "accuracy": 0.5, "val_loss": None, "val_accuracy": None}
    fields |= {"learning_rate": 0.1, "examples_per_second": 1.0, "loss_scale": None}
    return EpochDone(epoch=number, **{**fields, **values})


def prediction(color, true="a", predicted="a"):
    image = np.full((8, 8, 3), color, np.uint8)
    return SamplePrediction(image, "", true, predicted, 0.75)


@pytest.mark.figures
def test_a_run_draws_its_curve_its_confusion_and_samples(options):
    given = options(epochs=2, sample_predictions=5)
    result = train_on(tiny.data(), given)
    for name in ("learning_curve", "confusion_matrix", "sample_predictions"):
        drawn = pixels((given.run_dir / f"{name}.png").read_bytes())
        assert min(drawn.shape[:2]) > 200
        assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 50
    rows = list(csv.reader(io.StringIO((given.run_dir / "confusion_matrix.csv").read_text())))
    assert rows[0][1:] == list(tiny.NAMES) == [row[0] for row in rows[1:]]
    counts = np.array([row[1:] for row in rows[1:]], int)
    _, labels = tiny.make_images(13, 8, 1)
    assert counts.sum(axis=1).tolist() == np.bincount(labels, minlength=3).tolist()
    assert np.trace(counts) / 13 == pytest.approx(result.final.val_accuracy)
    written = EventAccumulator(str(given.run_dir / "tensorboard" / "validation")).Reload()
    assert {"confusion_matrix", "sample_predictions"} <= set(written.Tags()["tensors"])
    assert not (given.run_dir / "sample_predictions.md").exists()  # a table of texts


@pytest.mark.figures
def test_a_resumed_run_draws_the_whole_curve(options, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        records, "learning_curve", lambda history, best: drawn.append(len(history)) or b""
    )

    class Stopped(Exception):
        pass

    def stop(event):
        if isinstance(event, EpochDone):
            raise Stopped

    data = dataclasses.replace(tiny.data(), validation=None)
    with pytest.raises(Stopped):
        train_on(data, options(epochs=3), stop)
    drawn.clear()
    train_on(data, options(epochs=3))
    assert drawn[-1] == 3


@pytest.mark.parametrize("count", [1, 40])
def test_a_curve_of_any_length_shows_both_phases(count):
    history = [epoch(n, loss=1 / n, val_loss=2 / n, val_accuracy=0.5) for n in range(1, count + 1)]
    history[0] = dataclasses.replace(history[0], val_loss=None)  # as before a split was given
    png = pixels(learning_curve(history, count))
    for color in ((0x1F, 0x77, 0xB4), (0xD9, 0x5F, 0x02)):
        assert (png == color).all(axis=-1).sum() > 20


def test_names_of_classes_are_drawn_as_they_are():
    matrix = np.eye(5, dtype=np.int64) * 7
    drawn = pixels(confusion_matrix(matrix, NASTY, 1))
    darkest = np.array([0x08, 0x30, 0x6B])  # of the map: a share of 1
    assert (np.abs(drawn.astype(int) - darkest).sum(axis=-1) < 20).sum() > 5 * 500
    assert pixels(sample_predictions([prediction(9, "$a", "$b$")], 1)).shape[2] == 3


def test_the_grid_holds_every_image():
    colors = [(200, 10, 10), (10, 200, 10), (10, 10, 200), (90, 90, 10), (10, 90, 90)]
    drawn = pixels(sample_predictions([prediction(color) for color in colors], 3))
    for color in colors:
        assert (drawn == color).all(axis=-1).sum() > 1000


def test_what_fills_up_a_batch_is_not_counted():
    confusion = Confusion(tf.distribute.get_strategy(), 3)
    predicted = tf.constant([1, 1, 0, 2], tf.int64)
    confusion.add(tf.constant([1, 0, 0, 2]), predicted, tf.constant([1.0, 1.0, 1.0, 0.0]))
    assert confusion.take().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    confusion.add(tf.constant([2, 2, 2, 2]), predicted, None)
    assert confusion.take().tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 1]]


def test_samples_are_the_same_examples_for_a_seed():
    drawn = [Samples(tiny.finite(40, 8, 8).dataset, 4, seed, tiny.NAMES, str) for seed in (0, 0, 1)]

    def model(inputs, training):
        assert not training and inputs.dtype == np.float32
        return tf.one_hot(tf.argmax(tf.reduce_mean(inputs, (1, 2)), axis=-1), 3)

    first, again, other = ([one.image.tobytes() for one in each.predict(model)] for each in drawn)
    assert first == again != other
    assert all(one.is_right and one.probability == 1.0 for one in drawn[0].predict(model))


def test_documents_of_any_length_and_sequences_are_samples():
    ids = [tf.data.Dataset.from_tensors((np.full((2, n), n), np.array([0, 1]))) for n in (3, 5)]
    samples = Samples(ids[0].concatenate(ids[1]), 9, 0, ("a", "b"), lambda ids: f"text {ids}")
    predicted = samples.predict(lambda inputs, training: tf.constant([[0.25, 0.75]] * len(inputs)))
    assert sorted(one.text for one in predicted) == [f"text {[n] * n}" for n in (3, 3, 5, 5)]
    assert {(one.true, one.predicted) for one in predicted} == {("a", "b"), ("b", "b")}

    inputs = {"tokens": np.arange(12).reshape(2, 6), "segments": np.ones((2, 6), np.int64)}
    batch = (inputs, inputs["tokens"] + 1, np.ones((2, 6), np.float32))
    samples = Samples(tf.data.Dataset.from_tensors(batch), 9, 0, (), lambda ids: str(list(ids)))

    def model(inputs, training):
        return tf.one_hot(inputs["tokens"] + 1, 20)

    (one, _) = sorted(samples.predict(model), key=lambda each: each.text)
    assert (one.text, one.true, one.predicted) == ("[0, 1, 2, 3]", "[4]", "[4]")


def test_documents_cannot_break_the_table():
    hostile = SamplePrediction(None, "a | b\n\n# c <script>", "x_y", "x", 0.5)
    rows = table([hostile, dataclasses.replace(hostile, text="w " * 999)]).splitlines()
    assert len(rows) == 4
    assert rows[2] == "| a \\| b \\# c \\<script\\> | x\\_y | **x** | 50.0% |"
    assert len(rows[3]) < 260


def test_the_history_of_the_loss_scale_is_written_as_it_changes(options, monkeypatch):
    monkeypatch.setattr(records, "_POINT_SECONDS", 1e6)
    given = options(precision="mixed_float16", epochs=2)
    scales = iter([8.0] * 2 + [4.0] * 99)
    monkeypatch.setattr("trainer.loop.Loop.loss_scale", property(lambda loop: next(scales)))
    train_on(tiny.data(), given)
    written = EventAccumulator(str(given.run_dir / "tensorboard" / "steps")).Reload()
    values = [float(tf.make_ndarray(e.tensor_proto)) for e in written.Tensors("loss_scale")]
    assert values == [8.0, 4.0]
    assert set(written.Tags()["tensors"]) == {
        *("loss", "learning_rate", "loss_scale", "examples_per_second", "input_wait"),
    }


@pytest.mark.figures
def test_epochs_are_not_drawn_longer_than_trained(options, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        records.Records, "_draw", lambda self, history, matrix: drawn.append(history[-1].epoch)
    )
    monkeypatch.setattr(records, "_DRAWING_SECONDS", 1e6)
    train_on(tiny.data(), options(epochs=3))
    assert drawn == [3]

    shown = records.Records.__new__(records.Records)
    shown._started, shown._drawn_seconds, shown._next_seconds = 0, 0.0, 2.0
    seconds = iter(range(0, 1000, 30))
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(records, "time", clock)
    assert [shown._is_time() for _ in range(5)] == [False, False, False, False, True]
