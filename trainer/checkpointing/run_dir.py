"""The directory of a run: which run it belongs to, and what its epochs brought.

RUN_DIR/
  run.json             options, data set, versions and results; decides what may continue
  set-manifest.json    what the run keeps of its set, with the tokenizer of a set of token ids; see
                       trainer/checkpointing/kept_set.py
  lock                 while a run works here: who it is
  checkpoints/         weights, optimizer, finished epochs and steps, place of the reader; see
                       trainer/checkpointing/checkpoint_files.py
  history.json         one object per finished epoch
  tensorboard/         train/, validation/ and steps/; plugins/ holds a trace of --profile
  learning_curve.png   and the other figures and tables of `trainer.monitoring.records`
  stages.txt           with --strategy pipeline: where its stages begin
  best.keras           the model of the best epoch, where there is validation
  workers/             logs of --local-workers but the first
  head/                the run of the first phase of --head-epochs
  model.keras          the trained model; its presence says that the run is finished
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foundation import storage
from foundation.errors import InputError, UsageError, file_error
from foundation.storage import Place
from shard_format import ShardmillError, has_records_of, load_manifest
from trainer.checkpointing.run_lock import NAME as LOCK
from trainer.events import EpochDone
from trainer.options import Settings, default_identity
from trainer.precision import PRECISIONS

RUN = "run.json"
HISTORY = "history.json"
CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
CURVE = "learning_curve.png"
CONFUSION = "confusion_matrix"
SAMPLES = "sample_predictions"
BEST = "best.keras"
MODEL = "model.keras"
STAGES = "stages.txt"
WORKERS = "workers"
HEAD = "head"
_BEFORE_RUN = {WORKERS, HEAD, LOCK}  # exist before the run itself begins

# TensorFlow takes the path of a checkpoint for a pattern: a checkpoint in "lr[0.1]" is never found
# again, and the oldest checkpoints of "lr*" are deleted in "lr1" too.
_PATTERN = "\\*?[]"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A run and the directory it wants.

    Attributes:
        options: Options of the run.
        precision: The Keras dtype policy. It replaces the option: auto may be another policy on
            another machine, which cannot continue with this one's optimizer.
        root_hash: Root hash of the data set.
        class_names: Name of every output of the model; recorded for whoever uses the model.
        normalization: What was done to the images; recorded likewise. None for nothing.
        batch_norm: What `RunStarted` says of it; recorded likewise.
    """

    options: Settings
    precision: str
    root_hash: str
    class_names: Sequence[str]
    normalization: Any = None
    batch_norm: str | None = None

    @property
    def identity(self) -> dict[str, object]:
        """What must be equal for one run to continue another."""
        own = {"precision": self.precision, "root_hash": self.root_hash}
        return {**self.options.identity(), **own}

    def check(self) -> None:
        """Checks that the directory holds no run, or the beginning of this very one.

        A directory without a checkpoint has nothing to continue, and so nothing to protect: after
        a first epoch that failed, other options may use it again.

        Raises:
            InputError: The directory belongs to another run.
        """
        if _has_begun(self.options.run_dir):
            stored = _read(self.options.run_dir / RUN)
            _require_same(self.identity, stored, self.options)

    def write(self) -> None:
        """Makes the directory and its run.json.

        It comes after all that may fail at once (a model that does not build, a batch that is too
        large), so that the corrected command finds no claim of the wrong one.

        Raises:
            InputError: The directory cannot be written.
        """
        self._write({})

    def write_results(self, history: Sequence[EpochDone], best: EpochDone | None) -> None:
        """Adds the metrics of the last and of the best epoch to the run.json of a finished run.

        Raises:
            InputError: The directory cannot be written.
        """
        results = {"final": history[-1], "best": best}
        self._write({k: epoch and dataclasses.asdict(epoch) for k, epoch in results.items()})

    def _write(self, results: dict[str, Any]) -> None:
        import keras
        import tensorflow as tf

        content = {
            "identity": self.identity,
            "options": self.options.as_json(),
            "data": str(self.options.data),
            "class_names": list(self.class_names),
            "normalization": self.normalization and dataclasses.asdict(self.normalization),
            "strategy": self.options.strategy,
            "batch_norm": self.batch_norm,
            "devices": [_described(device) for device in tf.config.list_physical_devices()],
            "versions": {
                "shardmill": importlib.metadata.version("shardmill"),
                "python": platform.python_version(),
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
                "numpy": np.__version__,
            },
            **results,
        }
        try:
            self.options.run_dir.mkdir(parents=True, exist_ok=True)
            write_json(self.options.run_dir / RUN, content)
        except OSError as error:
            raise InputError(
                f"Cannot write to {self.options.run_dir}: {error}. Pass another --run-dir."
            ) from error


def _described(device: Any) -> str:
    """A device of this machine: "GPU NVIDIA H100", "CPU x86_64"."""
    import tensorflow as tf

    if device.device_type == "CPU":
        return f"CPU {platform.machine()}"
    name = tf.config.experimental.get_device_details(device).get("device_name", "")
    return f"{device.device_type} {name}".rstrip()


def require_free(directory: Place) -> None:
    """Checks that the directory is that of a run, or has no other content.

    Raises:
        UsageError: TensorFlow could not find checkpoints under this path again.
        InputError: It belongs to something else, or cannot be read.
    """
    if isinstance(directory, Path) and any(char in _PATTERN for char in str(directory)):
        raise UsageError(
            f"The path {directory} has one of {' '.join(_PATTERN)}, which are patterns to "
            "TensorFlow. Pass another --run-dir."
        )
    try:
        if storage.exists(directory / RUN) or not storage.exists(directory):
            return
        is_free = storage.is_folder(directory) and all(
            entry.name in _BEFORE_RUN for entry in storage.list_folder(directory)
        )
    except OSError as error:
        raise file_error(error, str(directory)) from error
    if not is_free:
        raise InputError(
            f"{directory} holds other files and no {RUN}. Pass another --run-dir, new or empty."
        )


def precision_of(directory: Path) -> str | None:
    """The Keras dtype policy of the run that a directory continues; None if there is none.

    Raises:
        InputError: Its run.json cannot be read.
    """
    stored = _read(directory / RUN) if _has_begun(directory) else None
    identity = stored.get("identity") if isinstance(stored, dict) else None
    policy = identity.get("precision") if isinstance(identity, dict) else None
    return policy if policy in PRECISIONS else None


def _has_begun(directory: Path) -> bool:
    return (directory / RUN).exists() and (directory / CHECKPOINTS).exists()


def _require_same(identity: dict[str, Any], stored: Any, options: Settings) -> None:
    directory = options.run_dir
    before = stored.get("identity") if isinstance(stored, dict) else None
    if not isinstance(before, dict):
        raise InputError(f"No identity of a run in {directory / RUN}. Pass another --run-dir.")
    # Through JSON, so that a tuple equals the list it was stored as.
    now = json.loads(json.dumps(identity))
    # A run of an earlier version did what the defaults of later options are.
    before = {**default_identity(), **before}
    epochs = before.get("epochs")
    if _has_finished(directory) and isinstance(epochs, int) and now["epochs"] > epochs:
        before["epochs"] = now["epochs"]  # it goes on
    if has_records_of(options.data, now["root_hash"], str(before.get("root_hash"))):
        before["root_hash"] = now["root_hash"]  # compacted: the run goes on in another order
    changed = [
        f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise InputError(
            f"{directory} holds a run with other options or data: {'; '.join(changed)}. Pass "
            f"another --run-dir for a new run, or {_remedy(before, options)} to continue it."
        )


def _has_finished(directory: Path) -> bool:
    """Whether a run is done, and no second phase has begun with its model."""
    return (directory / MODEL).exists() and directory.name != HEAD


def _remedy(before: dict[str, Any], options: Settings) -> str:
    """What continues a run that had other values: the set may have grown since."""
    try:
        generations = load_manifest(options.data).generations
    except ShardmillError:  # of a set that is gone, for example
        return "the old values"
    views = [one.view for one in generations[:-1]]
    if before.get("root_hash") not in views:
        return "the old values"
    return f"--generation {views.index(before['root_hash'])}"


def read_history(directory: Path, epochs_done: int) -> list[EpochDone]:
    """The epochs up to the checkpoint.

    The history is written before the checkpoint, so after a kill between the two it is one epoch
    ahead; what the checkpoint lacks of that epoch runs again, and its line is dropped here.

    Raises:
        InputError: The history is missing, damaged, or behind the checkpoint.
    """
    path = directory / HISTORY
    if epochs_done == 0:
        return []
    epochs = _read(path)
    if not isinstance(epochs, list) or len(epochs) < epochs_done:
        raise InputError(
            f"{path} has fewer epochs than the checkpoint ({epochs_done}). Restore it, or pass "
            "another --run-dir."
        )
    try:
        return [EpochDone(**epoch) for epoch in epochs[:epochs_done]]
    except TypeError as error:  # no dictionary, or one of other fields
        raise InputError(
            f"{path} does not hold the epochs that this version writes: {error}. Restore it, or "
            "pass another --run-dir."
        ) from error


def write_history(directory: Path, history: Sequence[EpochDone]) -> None:
    """Replaces history.json."""
    write_json(directory / HISTORY, [dataclasses.asdict(epoch) for epoch in history])


def write_json(path: Path, value: Any) -> None:
    """Writes under a temporary name and renames, so that a reader never sees half a file."""
    write_file(path, (json.dumps(value, indent=1) + "\n").encode())


def write_file(path: Path, content: bytes) -> None:
    """Replaces a file whole, like `write_json`, with any content.

    Raises:
        InputError: It cannot be written: the disk is full, or there is a folder of that name.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise file_error(error, str(path)) from error


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is not JSON: {error}. Restore it, or pass another --run-dir."
        ) from error
