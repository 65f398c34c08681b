"""Checkpoints: everything a run needs to go on as if it had not stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tensorflow as tf

from shard_format.errors import InputError

EPOCHS_DONE = "epochs_done"


class Checkpoints:
    """The last few states of a model, its optimizer and the number of finished epochs.

    TensorFlow writes data and index under temporary names and then replaces the small file
    `checkpoint` that names the latest one, so a kill at any moment leaves the one before.

    Args:
        directory: Where the checkpoints lie; made when the first one is saved.
        model: A built Keras model.
        optimizer: Its built Keras optimizer. It must be built: variables that appear later would
            be restored later too, and a wrong checkpoint would not be found out here.
        keep: How many of the latest checkpoints stay.
    """

    def __init__(self, directory: Path, model: Any, optimizer: Any, keep: int) -> None:
        self._epochs_done = tf.Variable(0, dtype=tf.int64, trainable=False)
        # Lists of variables rather than the two objects: walking a Keras 3.15 model, TensorFlow
        # does not find the state of the random generators of its dropout layers, and a continued
        # run would draw other masks than one that never stopped.
        checkpoint = tf.train.Checkpoint(
            model=[variable.value for variable in model.variables],
            optimizer=[variable.value for variable in optimizer.variables],
            **{EPOCHS_DONE: self._epochs_done},
        )
        self._checkpoint = checkpoint
        self._manager = tf.train.CheckpointManager(checkpoint, str(directory), max_to_keep=keep)

    def save(self, epochs_done: int) -> None:
        """Keeps the state after `epochs_done` epochs, and deletes the oldest one above `keep`."""
        self._epochs_done.assign(epochs_done)
        self._manager.save(checkpoint_number=epochs_done)

    def restore(self) -> None:
        """Takes the latest state, if there is one.

        Raises:
            InputError: The latest checkpoint cannot be read, or is of another model.
        """
        latest = self._manager.latest_checkpoint
        if latest is None:
            return
        try:
            self._checkpoint.restore(latest).assert_consumed()
        except (tf.errors.OpError, AssertionError, ValueError, IndexError) as error:
            raise _unusable(latest, error) from error


def epochs_done(directory: Path) -> int:
    """How many epochs the latest checkpoint has finished; 0 if there is none.

    It needs no model, so that the data can be opened at its place before the model is made.

    Raises:
        InputError: The latest checkpoint cannot be read.
    """
    latest = tf.train.latest_checkpoint(str(directory))
    if latest is None:
        return 0
    try:
        return int(tf.train.load_variable(latest, f"{EPOCHS_DONE}/.ATTRIBUTES/VARIABLE_VALUE"))
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise _unusable(latest, error) from error


def _unusable(latest: str, error: Exception) -> InputError:
    return InputError(
        f"a checkpoint must hold the weights of this model and optimizer, got "
        f"{type(error).__name__} in {latest}. If the code of the model has changed, pass another "
        "--run-dir; if the file is damaged, delete it and the lines that name it in the file "
        "'checkpoint' beside it."
    )


def save_model(model: Any, path: Path) -> None:
    """Saves a `.keras` file under a temporary name and renames it.

    Raises:
        InputError: Keras cannot write this model.
    """
    temporary = path.with_name(f"unfinished-{path.name}")  # Keras insists on the ending .keras
    try:
        model.save(temporary)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"a model must be serializable by Keras, got {type(error).__name__}: {error} for "
            f"{path}. Give a layer of your own a get_config() and "
            "@keras.saving.register_keras_serializable(). Its weights are in the checkpoints."
        ) from error
    os.replace(temporary, path)
