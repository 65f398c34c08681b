"""Checkpoints: everything a run needs to resume as if it had not stopped.

One checkpoint holds the weights, the optimizer, and where the run and its reader are, so that no
kill can leave the one without the other. It is written while the training continues:

    the thread that trains   takes the values of all variables, which no later step changes
    another thread           serializes, checksums, writes and names them
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import tensorflow as tf

from foundation.errors import InputError
from trainer.checkpointing import checkpoint_files
from trainer.checkpointing.progress import Progress

# Names in a checkpoint, those of tf.train.Checkpoint. Version 0.1.0 wrote the number of epochs
# alone.
_PROGRESS = "progress/.ATTRIBUTES/py_state"
_EPOCHS_DONE = "epochs_done/.ATTRIBUTES/VARIABLE_VALUE"
_VARIABLE = ".ATTRIBUTES/VARIABLE_VALUE"

# For the rest of a checkpoint, when the run ends by an error.
_LAST_SECONDS = 60.0


class Checkpoints:
    """The last few states of a model, its optimizer and the progress of its run.

    A context: when it is left by an error, a checkpoint at work is finished.

    Args:
        directory: Directory of the checkpoints; created when the first one is saved.
        model: A built Keras model.
        optimizer: Keras optimizer of the model. It must be built: variables that appear later
            would be restored later too, and a wrong checkpoint would not be found out here.
        keep: Number of the latest checkpoints that stay.
        before: Files that a checkpoint needs, to be on the disk before it.
        on_whole: Function called by the other thread when a checkpoint is whole.
    """

    def __init__(
        self,
        directory: Path,
        model: Any,
        optimizer: Any,
        keep: int,
        before: Sequence[Path] = (),
        on_whole: Callable[[], None] = lambda: None,
    ) -> None:
        self._directory = directory
        # Lists of variables rather than the two objects: walking a Keras 3.15 model, TensorFlow
        # does not find the state of the random generators of its dropout layers, and a continued
        # run would draw other masks than one that never stopped.
        self._variables = {"model": model.variables, "optimizer": optimizer.variables}
        self._keep = keep
        self._before = before
        self._on_whole = on_whole
        self._kept: list[int] | None = None
        self._next = 0
        self._writer: threading.Thread | None = None
        self._failure: Exception | None = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None and not isinstance(error, KeyboardInterrupt):
            self._writer.join(_LAST_SECONDS)

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is at work."""
        return self._writer is not None and self._writer.is_alive()

    @property
    def has_failed(self) -> bool:
        """Whether a checkpoint could not be written; `save` and `wait` raise the error."""
        return self._failure is not None

    def save(self, progress: Progress) -> None:
        """Takes the state at this place, and begins to write it.

        At most one checkpoint is at work: it waits for an earlier one.

        Raises:
            InputError: The earlier one could not be written.
        """
        self.wait()
        values = dict(self._values())
        values[_PROGRESS] = tf.constant(progress.to_json())
        self._writer = threading.Thread(target=self._write, args=(values,))
        self._writer.start()

    def wait(self) -> None:
        """Waits until nothing is at work.

        Raises:
            InputError: There is no room for a checkpoint, or it cannot be written for another
                reason.
        """
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._failure is not None:
            error, self._failure = self._failure, None
            if not isinstance(error, (tf.errors.OpError, OSError)):
                raise error
            raise InputError(
                f"Cannot write a checkpoint to {self._directory}: '{_first_line(error)}'. Free "
                "some space, then run the same command again; it resumes at the previous "
                "checkpoint."
            ) from error

    def restore(self, number: int | None) -> None:
        """Takes the state of a checkpoint, of `checkpoint_files.newest`.

        Args:
            number: Number of the checkpoint; None for none.

        Raises:
            InputError: It is of another model.
        """
        if number is None:
            return
        prefix = checkpoint_files.prefix_of(self._directory, number)
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        types = reader.get_variable_to_dtype_map()
        expected = {name: (list(v.shape), v.dtype) for name, v in self._named_variables()}
        stored = {
            name: (shape, types[name].name)
            for name, shape in shapes.items()
            if name.startswith(("model/", "optimizer/"))
        }
        for name in sorted({*stored, *expected}):
            if stored.get(name) != expected.get(name):
                raise _other_model(prefix, name, stored.get(name), expected.get(name))
        for name, variable in self._named_variables():
            variable.assign(reader.get_tensor(name))
        self._kept = [*checkpoint_files.older(self._directory, number), number]

    def _named_variables(self) -> Iterator[tuple[str, Any]]:
        """(name in a checkpoint, Keras variable)."""
        for part, variables in self._variables.items():
            for index, variable in enumerate(variables):
                yield f"{part}/{index}/{_VARIABLE}", variable

    def _values(self) -> Iterator[tuple[str, Any]]:
        """(name, tensor in the memory of this machine) of every variable.

        A tensor never changes. That of a variable on the CPU shares its memory until a step writes
        to the variable, which gets new memory then: this takes no time, and the copy is made by
        that step, for all variables in parallel. From other devices it is copied here.
        """
        with tf.device("/cpu:0"):
            for name, variable in self._named_variables():
                value = variable.value
                on_tensorflow = hasattr(value, "read_value")
                # JAX uses the memory of its array again in the next step.
                yield name, tf.identity(value.read_value() if on_tensorflow else np.array(value))

    def _write(self, values: dict[str, Any]) -> None:
        """Writes a checkpoint and deletes older ones, in the other thread."""
        try:
            if self._kept is None:
                self._kept = []
            if not self._next:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._next = checkpoint_files.next_number(self._directory)
            # One number never names two checkpoints, so that no file is replaced.
            number, self._next = self._next, self._next + 1
            kept = [*self._kept, number][-self._keep :]
            try:
                with tf.device("/cpu:0"):
                    tf.raw_ops.SaveV2(
                        prefix=str(checkpoint_files.prefix_of(self._directory, number)),
                        tensor_names=list(values),
                        shape_and_slices=[""] * len(values),
                        tensors=list(values.values()),
                    )
                values.clear()
                checkpoint_files.complete(self._directory, kept, self._before)
            except (tf.errors.OpError, OSError):
                checkpoint_files.delete_others(self._directory, self._kept)  # what there is of it
                raise
            self._kept = kept
            self._on_whole()
        except Exception as error:  # raised in the thread that trains, by `wait`
            self._failure = error


def latest_progress(directory: Path) -> Progress:
    """The place of the newest checkpoint whose files have their sizes; the beginning without one.

    Raises:
        DamageError: There are checkpoints, and all are damaged.
        InputError: A file cannot be opened.
    """
    return progress_of(directory, checkpoint_files.newest(directory, whole=False))


def progress_of(directory: Path, number: int | None) -> Progress:
    """The place of a checkpoint; the beginning for None.

    It needs no model, so that the data can be opened at its place before the model is made.

    Raises:
        InputError: It holds none.
    """
    if number is None:
        return Progress()
    prefix = checkpoint_files.prefix_of(directory, number)
    try:
        stored = tf.train.load_checkpoint(str(prefix))
        if stored.has_tensor(_PROGRESS):
            return Progress.from_json(stored.get_tensor(_PROGRESS))
        return Progress(epochs_done=int(stored.get_tensor(_EPOCHS_DONE)))
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise InputError(
            f"The checkpoint {prefix} holds no place of a run ({type(error).__name__}). Pass "
            "another --run-dir."
        ) from error


def epochs_kept(directory: Path) -> list[int]:
    """Numbers of the whole checkpoints at the ends of epochs, ascending."""
    newest = checkpoint_files.newest(directory, whole=False)
    if newest is None:
        return []
    numbers = [*checkpoint_files.older(directory, newest), newest]
    return [number for number in numbers if progress_of(directory, number).step == 0]


def restore_model(directory: Path, model: Any, number: int) -> None:
    """Gives a model, as the run has saved it, the weights of a checkpoint."""
    stored = tf.train.load_checkpoint(str(checkpoint_files.prefix_of(directory, number)))
    for index, variable in enumerate(model.variables):
        variable.assign(stored.get_tensor(f"model/{index}/{_VARIABLE}"))


def _other_model(prefix: Path, name: str, stored: Any, expected: Any) -> InputError:
    def text(value: Any) -> str:
        return "nothing" if value is None else f"{value[1]} {value[0]}"

    return InputError(
        f"The checkpoint {prefix} is of another model or optimizer: {name.partition('/.')[0]} is "
        f"{text(stored)} there and {text(expected)} here. If the code of the model has changed, "
        "pass another --run-dir."
    )


def _first_line(error: Exception) -> str:
    return str(getattr(error, "message", error)).partition("\n")[0]


def save_model(model: Any, path: Path) -> None:
    """Saves a `.keras` file under a temporary name and renames it.

    Raises:
        InputError: Keras cannot write this model, or there is no room for it.
    """
    temporary = path.with_name(f"unfinished-{path.name}")  # Keras insists on the ending .keras
    try:
        model.save(temporary)
    # The last one is raised by Keras' own get_config(), for arguments that it cannot record.
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
