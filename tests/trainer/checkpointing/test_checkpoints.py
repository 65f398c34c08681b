"""Checkpoints that are written while the training continues."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from shard_format import InputError
from trainer.checkpointing import checkpoint_files
from trainer.checkpointing.checkpoints import Checkpoints, progress_of
from trainer.checkpointing.progress import Progress
from trainer.run import train_on


def made():
    """A model with every kind of state, its optimizer, and a step that changes all of it."""
    model = tiny.with_norm((8, 8, 3), 3)
    optimizer = keras.optimizers.AdamW(0.1)
    optimizer.build(model.trainable_variables)
    images = tf.random.uniform((4, 8, 8, 3), seed=1)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(images, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)

    return model, optimizer, step


def values(model, optimizer):
    return [np.array(variable) for variable in (*model.variables, *optimizer.variables)]


@pytest.fixture
def gate(monkeypatch):
    """Lets the writer begin when it is set."""
    event, save = threading.Event(), tf.raw_ops.SaveV2

    def waiting(**arguments):
        assert event.wait(60)
        save(**arguments)

    monkeypatch.setattr(tf.raw_ops, "SaveV2", waiting)
    yield event
    event.set()


def test_a_checkpoint_holds_the_values_of_its_place_though_steps_follow(tmp_path, gate):
    model, optimizer, step = made()
    step()
    kept = Checkpoints(tmp_path / "c", model, optimizer, 2)
    expected = values(model, optimizer)
    kept.save(Progress(3, 1))
    for _ in range(3):
        step()
    assert kept.is_writing and not (tmp_path / "c" / "checkpoint").exists()
    unchanged = sum(map(np.array_equal, expected, values(model, optimizer)))
    assert unchanged < len(expected) / 2
    gate.set()
    kept.wait()
    assert progress_of(tmp_path / "c", 1) == Progress(3, 1)
    kept.restore(1)
    assert all(map(np.array_equal, expected, values(model, optimizer)))


def test_a_second_checkpoint_waits_for_the_first(tmp_path, gate):
    model, optimizer, _ = made()
    kept = Checkpoints(tmp_path / "c", model, optimizer, 2)
    kept.save(Progress(1))
    second = threading.Thread(target=kept.save, args=(Progress(2),))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    gate.set()
    second.join()
    kept.wait()
    assert [progress_of(tmp_path / "c", n).epochs_done for n in (1, 2)] == [1, 2]


def test_an_error_of_the_writer_ends_the_run(options, monkeypatch):
    def full(**_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.raw_ops, "SaveV2", full)
    steps = []
    given = options(epochs=100, checkpoint_minutes=1e-9)
    with pytest.raises(InputError, match=r"Cannot write a checkpoint to .*: 'No space left"):
        train_on(tiny.data(), given, steps.append)
    assert len(steps) < 20
    assert checkpoint_files.newest(given.run_dir / "checkpoints") is None


def test_the_latest_checkpoints_stay(tmp_path):
    model, optimizer, _ = made()
    kept = Checkpoints(tmp_path / "c", model, optimizer, 2)
    for number in range(4):
        kept.save(Progress(number))
    kept.wait()
    names = {path.name.partition(".")[0] for path in (tmp_path / "c").iterdir()}
    assert names == {"checkpoint", "ckpt-3", "ckpt-4"}
