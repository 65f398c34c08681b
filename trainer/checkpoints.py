"""Checkpoints: everything a run needs to resume as if it had not stopped.

One file holds the weights, the optimizer, and where the run and its reader are, so that no kill can
leave the one without the other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tensorflow as tf

from shard_format.errors import InputError
from trainer.progress import Progress

# Names in a checkpoint. Version 0.1.0 wrote the number of epochs alone.
_PROGRESS = "progress/.ATTRIBUTES/py_state"
_EPOCHS_DONE = "epochs_done/.ATTRIBUTES/VARIABLE_VALUE"

# What TensorFlow raises for files that are damaged or of another model.
_UNREADABLE = (tf.errors.OpError, AssertionError, ValueError, IndexError)


class _Held(tf.train.experimental.PythonState):
    """A progress, as a string of a checkpoint."""

    def __init__(self) -> None:
        self.progress = Progress()

    def serialize(self) -> str:
        return self.progress.to_json()

    def deserialize(self, string_value: bytes) -> None:
        self.progress = Progress.from_json(string_value)


class Checkpoints:
    """The last few states of a model, its optimizer and the progress of its run.

    TensorFlow writes data and index under temporary names and then replaces the small file
    `checkpoint` that names the latest one, so a kill at any moment leaves the one before.

    Args:
        directory: Of the checkpoints; created when the first one is saved.
        model: A built Keras model.
        optimizer: Its built Keras optimizer. It must be built: variables that appear later would
            be restored later too, and a wrong checkpoint would not be found out here.
        keep: How many of the latest checkpoints stay.
    """

    def __init__(self, directory: Path, model: Any, optimizer: Any, keep: int) -> None:
        self._held = _Held()
        # Lists of variables rather than the two objects: walking a Keras 3.15 model, TensorFlow
        # does not find the state of the random generators of its dropout layers, and a continued
        # run would draw other masks than one that never stopped.
        self._variables = {
            "model": [variable.value for variable in model.variables],
            "optimizer": [variable.value for variable in optimizer.variables],
        }
        self._checkpoint = tf.train.Checkpoint(**self._variables, progress=self._held)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, str(directory), max_to_keep=keep
        )

    def save(self, progress: Progress) -> None:
        """Keeps the state at this place, and deletes the oldest one above `keep`.

        Checkpoints are counted as they are written: one number never names two of them, as it
        would if an epoch gave it, so that no file is replaced that the latest one consists of.

        Raises:
            InputError: There is no room for it, or it cannot be written for another reason.
        """
        self._held.progress = progress
        try:
            self._manager.save()
        except tf.errors.OpError as error:
            raise InputError(
                f"Cannot write a checkpoint to {self._manager.directory}: '{_first_line(error)}'. "
                "Free some space, then run the same command again; it resumes at the previous "
                "checkpoint."
            ) from error

    def restore(self) -> None:
        """Takes the latest state, if there is one.

        Raises:
            InputError: The latest checkpoint cannot be read, or is of another model.
        """
        latest = self._manager.latest_checkpoint
        if latest is None:
            return
        try:
            if tf.train.load_checkpoint(latest).has_tensor(_PROGRESS):
                self._checkpoint.restore(latest).assert_consumed()
            else:
                self._restore_first_version(latest)
        except _UNREADABLE as error:
            raise _unusable(latest, error) from error

    def _restore_first_version(self, latest: str) -> None:
        before = tf.train.Checkpoint(**self._variables, epochs_done=tf.Variable(0, dtype=tf.int64))
        before.restore(latest).assert_consumed()
        self._checkpoint.save_counter.assign(before.save_counter)


def latest_progress(directory: Path) -> Progress:
    """The place of the latest checkpoint; the beginning if there is none.

    It needs no model, so that the data can be opened at its place before the model is made.

    Raises:
        InputError: The latest checkpoint cannot be read.
    """
    latest = _latest(directory)
    if latest is None:
        return Progress()
    try:
        stored = tf.train.load_checkpoint(latest)
        if stored.has_tensor(_PROGRESS):
            return Progress.from_json(stored.get_tensor(_PROGRESS))
        return Progress(epochs_done=int(stored.get_tensor(_EPOCHS_DONE)))
    except _UNREADABLE as error:
        raise _unusable(latest, error) from error


def _latest(directory: Path) -> str | None:
    """The checkpoint that the file 'checkpoint' names; None where there is no such file.

    TensorFlow only warns of a file that it cannot read: the run would start anew, and overwrite
    its checkpoints.
    """
    path = directory / "checkpoint"
    if not path.exists():
        return None
    try:
        state = tf.train.get_checkpoint_state(str(directory))
    except ValueError:  # it is empty, or no text
        state = None
    if state is None:
        raise InputError(
            f"TensorFlow cannot read {path}, which names the latest checkpoint. Restore it; or "
            "write 'model_checkpoint_path: "
            '"ckpt-N"\' into it, with the latest N in that directory; or pass another --run-dir.'
        )
    return str(state.model_checkpoint_path)


def _unusable(latest: str, error: Exception) -> InputError:
    return InputError(
        f"The checkpoint {latest} does not fit this model and optimizer ({type(error).__name__}). "
        "If the code of the model has changed, pass another --run-dir; if the file is damaged, "
        "delete it and the lines that name it in the file 'checkpoint' of that directory."
    )


def _first_line(error: tf.errors.OpError) -> str:
    return str(error.message).partition("\n")[0]


def save_model(model: Any, path: Path) -> None:
    """Saves a `.keras` file under a temporary name and renames it.

    Raises:
        InputError: Keras cannot write this model, or there is no room for it.
    """
    temporary = path.with_name(f"unfinished-{path.name}")  # Keras insists on the ending .keras
    try:
        model.save(temporary)
    # NotImplementedError: Keras' own get_config() raises it for arguments that it cannot record.
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"Keras cannot serialize the model to {path}: {type(error).__name__}: {error}. Give a "
            "layer of your own a get_config() and @keras.saving.register_keras_serializable(). Its "
            "weights are in the checkpoints."
        ) from error
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(
            f"Cannot write the model to {path}: {error}. Free some space, then run the same "
            "command again; it resumes at the latest checkpoint."
        ) from error
    os.replace(temporary, path)
