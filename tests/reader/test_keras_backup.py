"""`reader.keras.Backup`: a plain `model.fit` that is killed anywhere ends as one that is not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from shard_format import DamageError, UsageError

PROGRAM = Path(__file__).with_name("keras_program.py")
OPTIONS: dict[str, Any] = {"batch_size": 10, "image_size": 8}
STEPS, EPOCHS = 11, 3  # of the tiny set


def fit(directory: Path, backup: Path | None, **changes: Any) -> Any:
    """What a training ends with; None if it was killed."""
    asked = {
        "set": str(directory),
        "backup": None if backup is None else str(backup),
        "kill": 0,
        "at_end": False,
        "save_freq": 4,
        "callback": "reader",
        "strategy": "one",
        "face": "dataset",
        "epochs": EPOCHS,
        **changes,
    }
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    if "backend" in asked:
        environment["KERAS_BACKEND"] = asked["backend"]
    environment["PYTHONPATH"] = str(PROGRAM.parents[2])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def killed_and_resumed(directory: Path, backup: Path, kills: int, seed: int, **options: Any) -> Any:
    """The end of a training that is killed so many times, at random steps of each run."""
    steps = random.Random(seed)
    for number in range(kills):
        kill = steps.randint(1, 2 * STEPS // 3)
        result = fit(directory, backup, kill=kill, at_end=number % 4 == 3, **options)
        if result is not None:  # it was at its end
            return result
    return fit(directory, backup, **options)


def test_a_training_that_is_killed_ends_as_one_that_is_not(tiny: Path, tmp_path: Path) -> None:
    expected = fit(tiny, None)
    assert len(expected["history"]["loss"]) == EPOCHS
    assert fit(tiny, tmp_path / "new", kill=6) is None  # two steps behind a backup
    assert fit(tiny, tmp_path / "new", kill=9) is None  # in the second
    assert fit(tiny, tmp_path / "new") == expected
    assert not list((tmp_path / "new").iterdir())  # a new training begins at the beginning


@pytest.mark.proof
@pytest.mark.parametrize("strategy", ["one", "mirrored"])
def test_twenty_kills(tiny: Path, tmp_path: Path, strategy: str) -> None:
    options = {"strategy": strategy, "epochs": 20, "save_freq": 3}
    expected = fit(tiny, None, **options)
    assert killed_and_resumed(tiny, tmp_path, 20, 5, **options) == expected


@pytest.mark.proof
def test_the_callback_of_keras_goes_on_with_other_batches(tiny: Path, tmp_path: Path) -> None:
    """As docs/reading.md says; once it does not, that page is to be changed."""
    expected = fit(tiny, None)
    assert fit(tiny, tmp_path, kill=6, callback="keras") is None
    result = fit(tiny, tmp_path, callback="keras")
    assert len(result["history"]["loss"]) == EPOCHS
    assert result["variables"] != expected["variables"] and result["history"] != expected["history"]


@pytest.mark.interop
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("face", "kills"), [("jax", 20), ("grain", 3)])
def test_kills_under_jax(tiny: Path, tmp_path: Path, face: str, kills: int) -> None:
    options = {"backend": "jax", "face": face, "epochs": kills, "save_freq": 3}
    expected = fit(tiny, None, **options)
    assert len(expected["history"]["loss"]) == kills
    assert killed_and_resumed(tiny, tmp_path, kills, 9, **options) == expected


def test_a_finite_stream_is_refused(tiny: Path, tmp_path: Path) -> None:
    from reader.keras import Backup

    with pytest.raises(UsageError, match=r"ends after epochs=2.* steps_per_epoch=stream"):
        Backup(tmp_path, reader.load(tiny, epochs=2, **OPTIONS))


def _backed_up(tiny: Path, folder: Path) -> None:
    import keras

    from reader.keras import Backup

    stream = reader.load(tiny, **OPTIONS)
    backup = Backup(folder, stream, delete_checkpoint=False)
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    model.compile("sgd", "mse")
    data = ((images, np.zeros((len(images), 2))) for images, _ in stream)
    model.fit(data, steps_per_epoch=3, epochs=1, callbacks=[backup], verbose=0)


def test_a_backup_of_something_else_is_refused(tiny: Path, tmp_path: Path) -> None:
    import keras

    from reader.keras import Backup

    _backed_up(tiny, tmp_path)
    with pytest.raises(UsageError, match="seed is 0 in it and 1 in the stream"):
        Backup(tmp_path, reader.load(tiny, seed=1, **OPTIONS))
    stream = reader.load(tiny, **OPTIONS)
    backup = Backup(tmp_path, stream)
    assert stream.first_step == 3
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(5)]
    )
    model.compile("sgd", "mse")
    data = ((images, np.zeros((len(images), 5))) for images, _ in stream)
    with pytest.raises(UsageError, match=r"kernel \(192, 2\) where the model has .*\(192, 5\)"):
        model.fit(data, steps_per_epoch=3, epochs=2, callbacks=[backup], verbose=0)


def test_a_damaged_backup_is_named(tiny: Path, tmp_path: Path) -> None:
    from reader.keras import Backup

    _backed_up(tiny, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"\0" * 100):
        file.write_bytes(damaged)
        with pytest.raises(DamageError, match=r"Cannot read the backup .*Delete it to begin again"):
            Backup(tmp_path, reader.load(tiny, **OPTIONS))
