"""A callback for `model.fit` that resumes a killed run within an epoch, with any backend."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from typing_extensions import override

from foundation import storage
from foundation.options import check_integer
from foundation.storage import place_of
from reader.options import Directory
from reader.stream import Stream
from shard_format import DamageError, UsageError

_FILE = "backup.npz"
_WHERE = "reader.keras.Backup"


_Value = tuple[str, npt.NDArray[Any]]  # name and value of a variable


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What a backup holds.

    Attributes:
        epoch: Epochs that were done.
        step: Steps of the next one that were done.
        stream: State of the stream.
        history: Logs of the epochs that were done.
        state: Names and values of the variables of model and optimizer, of each replica.
        metrics: The same of the metrics.
    """

    epoch: int
    step: int
    stream: dict[str, Any]
    history: dict[str, list[Any]]
    state: list[_Value]
    metrics: list[_Value]


class Backup(keras.callbacks.Callback):
    """Saves a training within its epochs, and resumes it at the batch that follows.

        stream = reader.load("data/photos", batch_size=128, image_size=224, augment="standard")
        backup = reader.keras.Backup("backup", stream, save_freq=500)
        model.fit(stream.dataset, steps_per_epoch=stream.steps_per_epoch, epochs=90,
                  callbacks=[backup])

    The same program, started again after it was killed, resumes: the model, the optimizer with its
    loss scale, seeds, metrics, the history, and the place of the stream are those of the last
    backup, so the result is that of a run that nobody killed. keras.callbacks.BackupAndRestore
    saves no place within the data: it begins an epoch, or its rest, with other batches.

    Make it before `stream.dataset` or another view of the stream is used, which begins where the
    backup says, and name it first among the callbacks. What other callbacks count is not saved.

    Args:
        directory: Directory or URL of the backup, a file that is replaced in one step.
        stream: The stream that `fit` reads, endless (epochs=None) and not of a service.
        save_freq: Steps between two backups; the end of an epoch is one, too.
        delete_checkpoint: Whether the backup is deleted when `fit` has ended.

    Raises:
        UsageError: The stream ends, or the backup is of another stream.
        DamageError: The backup cannot be read.
    """

    def __init__(
        self,
        directory: Directory,
        stream: Stream,
        *,
        save_freq: int = 1000,
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        check_integer("save_freq", save_freq, 1, where=_WHERE)
        if stream.info.epochs is not None:
            raise UsageError(
                f"The stream ends after epochs={stream.info.epochs}, and Keras would begin it "
                f"again, in {_WHERE}. Load it without epochs, and pass "
                "steps_per_epoch=stream.steps_per_epoch to fit."
            )
        self._place = place_of(directory) / _FILE
        self._stream, self._save_freq = stream, save_freq
        self._delete = delete_checkpoint
        storage.make_folder(self._place.parent)
        self._saved = _read(self._place)
        if self._saved is not None:
            stream.load_state_dict(self._saved.stream)
        self._history: dict[str, list[Any]] = {}
        self._epoch = self._before = self._steps = 0
        self._cuts_epoch = False
        self._sums: list[_Value] = []

    @override
    def on_train_begin(self, logs: Any = None) -> None:
        """Restores all but the metrics, which Keras resets when an epoch begins."""
        self._steps = self.params.get("steps") or self._stream.steps_per_epoch
        saved = self._saved
        if saved is None:
            return
        self._history = {name: list(values) for name, values in saved.history.items()}
        self.model._initial_epoch = saved.epoch  # as keras.callbacks.BackupAndRestore does
        if not self.model.built:
            raise UsageError(
                f"The model has no variables yet, in {_WHERE}. Give it a keras.Input, so that "
                f"those of {self._place} can be restored."
            )
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self._restore(self._state(), saved.state)

    @override
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Restores the metrics and the history, where an epoch is resumed."""
        saved, self._saved = self._saved, None
        self._epoch, self._before = epoch, 0
        if saved is None:
            return
        history = self.model.history
        history.history = {name: list(values) for name, values in saved.history.items()}
        history.epoch = list(range(saved.epoch))
        if saved.step:
            self._before = saved.step
            if len(self._metrics()) == len(saved.metrics):
                self._restore(self._metrics(), saved.metrics)
            else:  # Keras makes some with the first batch
                self._sums = saved.metrics

    @override
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves every so many steps, and ends an epoch that was begun before."""
        if self._sums:
            self._synchronize()
            # What a metric holds behind the first batch is what this adds to it.
            parts = self._metrics()
            values = [(name, _array(part)) for name, part in parts]
            sums = zip(self._sums, values, strict=True)
            self._restore(parts, [(name, value + own) for (name, value), (_, own) in sums])
            self._sums = []
        step = self._before + batch + 1
        if step < self._steps:
            # Steps that are executed at once may pass a multiple.
            if step % self._save_freq < min(self._save_freq, self._executed):
                self._save(self._epoch, step)
        elif self._before:
            # Keras counts the steps of this run, and would go on into the next epoch.
            self.model.stop_training = self._cuts_epoch = True

    @override
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves."""
        if self._cuts_epoch:
            self.model.stop_training = self._cuts_epoch = False
        for name, value in (logs or {}).items():
            self._history.setdefault(name, []).append(float(value))
        self._save(epoch + 1, 0)

    @override
    def on_train_end(self, logs: Any = None) -> None:
        """Deletes the backup, if that was asked for."""
        if self._delete:
            storage.delete(self._place)

    @property
    def _executed(self) -> int:
        return int(self._model.steps_per_execution)

    def _save(self, epoch: int, step: int) -> None:
        self._synchronize()
        state = self._stream.state(global_step=epoch * self._steps + step)
        variables, metrics = (
            [(name, _array(part)) for name, part in parts]
            for parts in (self._state(), self._metrics())
        )
        saved = _Saved(epoch, step, state, self._history, variables, metrics)
        storage.write_bytes(self._place, _packed(saved), durable=True)

    def _restore(self, parts: list[tuple[str, Any]], values: list[_Value]) -> None:
        for (name, part), (known, value) in zip(parts, values, strict=False):
            shape = tuple(part.shape)
            if name != known or shape != value.shape:
                raise UsageError(
                    f"The backup in {self._place} has {known} {value.shape} where the model has "
                    f"{name} {shape}, in {_WHERE}. Make the same model, or delete the backup."
                )
        if len(parts) != len(values):
            raise UsageError(
                f"The backup in {self._place} has {len(values)} variables, and the model "
                f"{len(parts)}, in {_WHERE}. Make the same model, or delete the backup."
            )
        for (_, part), (_, value) in zip(parts, values, strict=True):
            part.assign(value)

    def _synchronize(self) -> None:
        """Has variables hold the values of JAX, which keeps them elsewhere within an epoch."""
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()

    def _state(self) -> list[tuple[str, Any]]:
        """Names and variables of model and optimizer, those of each replica."""
        model = self.model
        return self._parts([*model.variables, *model.optimizer.variables])

    def _metrics(self) -> list[tuple[str, Any]]:
        """Names and variables of the metrics: each replica has sums of its own."""
        return self._parts(self.model.metrics_variables)

    def _parts(self, variables: list[Any]) -> list[tuple[str, Any]]:
        if keras.backend.backend() != "tensorflow":
            return [(variable.name, variable) for variable in variables]
        local = self.model.distribute_strategy.experimental_local_results
        return [(variable.name, part) for variable in variables for part in local(variable.value)]


def _array(variable: Any) -> npt.NDArray[Any]:
    value = variable.numpy() if hasattr(variable, "numpy") else variable.value
    return np.asarray(value)


def _packed(saved: _Saved) -> bytes:
    """The bytes of a file: an NPZ, of values of any type as bytes."""
    values = [*saved.state, *saved.metrics]
    about = {
        "about": [saved.epoch, saved.step, saved.stream, saved.history, len(saved.state)],
        "values": [[name, str(value.dtype), value.shape] for name, value in values],
    }
    contents = {"about": json.dumps(about).encode()}
    contents |= {str(number): value.tobytes() for number, (_, value) in enumerate(values)}
    arrays: dict[str, Any] = {
        name: np.frombuffer(content, np.uint8) for name, content in contents.items()
    }
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _read(place: Any) -> _Saved | None:
    """What was saved; None if nothing was.

    Raises:
        DamageError: It cannot be read.
    """
    try:
        arrays = np.load(io.BytesIO(storage.read_bytes(place)))
        about = json.loads(arrays["about"].tobytes())
        values = [
            (name, np.frombuffer(arrays[str(number)].tobytes(), _dtype(dtype)).reshape(shape))
            for number, (name, dtype, shape) in enumerate(about["values"])
        ]
        epoch, step, stream, history, count = about["about"]
        return _Saved(epoch, step, stream, history, values[:count], values[count:])
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DamageError(
            f"Cannot read the backup {place}: {error}. Delete it to begin again."
        ) from error


def _dtype(name: str) -> Any:
    """A type of NumPy, or of those that JAX and TensorFlow add, such as bfloat16."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))
