"""Files of a run that are not as they were written, or that cannot be written."""

import concurrent.futures
import dataclasses
import errno
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from outcomes import assert_same
from tiny import Stopped, stop_after

from shard_format import DamageError, InputError, UsageError
from tests.fixtures.proofs import proofs
from trainer import Notice, RunStarted, TrainOptions, precision
from trainer.checkpointing.checkpoint_files import delete_others, newest, next_number
from trainer.checkpointing.run_lock import RunLock
from trainer.run import train_on


@pytest.fixture
def begun(options):
    """The options of a run of two epochs that stopped after the first."""
    given = options(epochs=2)
    with pytest.raises(Stopped):
        train_on(tiny.data(), given, stop_after(1))
    return given


@pytest.mark.parametrize("name", ["lr[0.1]", "run*", "run?", "a\\b"])
def test_a_run_whose_checkpoints_could_not_be_found_again_does_not_begin(options, tmp_path, name):
    """TensorFlow takes the path for a pattern: it would train for days, and not go on."""
    with pytest.raises(UsageError, match=r"The path .* has one of .*Pass another --run-dir"):
        train_on(tiny.data(), options(run_dir=tmp_path / name))
    assert not (tmp_path / name).exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a run of three epochs that keeps two checkpoints."""
    directory = tmp_path_factory.mktemp("finished") / "run"
    train_on(tiny.data(), options_in(directory))
    return directory


def options_in(directory):
    return TrainOptions(
        data="none",
        run_dir=directory,
        model="tiny:dense",
        image_size=8,
        batch_size=8,
        epochs=3,
        precision="float32",
    )


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it that may be damaged."""
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run" / "checkpoints"


def flip(path, place=0.5):
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 4
    path.write_bytes(data)


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


DATA, INDEX = "ckpt-3.data-00000-of-00001", "ckpt-3.index"


@pytest.mark.parametrize(
    ("damage", "name", "fact"),
    [
        (flip, DATA, r"has the CRC32C [0-9a-f]{8}, not [0-9a-f]{8}"),
        (cut, DATA, r"has [\d,]+ bytes, not [\d,]+"),
        (Path.unlink, DATA, "is missing"),
        (flip, INDEX, r"has the CRC32C"),
        (Path.unlink, INDEX, "is missing"),
        (flip, "ckpt-3.json", r"has|is not the list of checksums"),
        (lambda path: path.write_bytes(b""), "ckpt-3.json", "is not the list of checksums"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_and_named(copied, damage, name, fact):
    damage(copied / name)
    said = []
    assert newest(copied, lambda *damage: said.append(damage)) == 2
    [(path, problem, used)] = said
    assert path.name.startswith("ckpt-3") and re.match(fact, problem), problem
    assert used == copied / "ckpt-2"


def test_every_flipped_bit_is_found(copied):
    """Of what names and checks the values: by a copy of each byte in turn."""
    for name in ("ckpt-3.json", INDEX):
        whole = (copied / name).read_bytes()
        for place in range(0, len(whole), 7):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << (place % 8)
            (copied / name).write_bytes(damaged)
            assert newest(copied) == 2 or json.loads(damaged) == json.loads(whole), (name, place)
        (copied / name).write_bytes(whole)
    assert newest(copied) == 3


def test_a_checkpoint_that_is_all_missing_is_noticed(copied):
    for path in copied.glob("ckpt-3.*"):
        path.unlink()
    said = []
    assert newest(copied, lambda *damage: said.append(damage)) == 2
    assert said == [(copied / DATA, "is missing", copied / "ckpt-2")]


def test_what_a_kill_left_of_a_checkpoint_is_ignored_and_deleted(copied):
    for path in list(copied.glob("ckpt-3.*")):
        name = path.name.replace("ckpt-3", "ckpt-4")
        if path.suffix != ".json":
            shutil.copy(path, copied / name)
    (copied / "ckpt-5.index.tempstate123").touch()
    assert newest(copied, pytest.fail) == 3
    assert next_number(copied) == 6
    delete_others(copied, [2, 3])
    assert {path.name.partition(".")[0] for path in copied.iterdir()} == {
        "checkpoint",
        "ckpt-2",
        "ckpt-3",
    }


@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff"])
@pytest.mark.parametrize("recorded", [True, False])
def test_the_checksums_say_which_is_the_latest_where_its_name_is_lost(copied, text, recorded):
    (copied / "checkpoint").write_bytes(text)
    if not recorded:  # as before there were any
        for path in copied.glob("*.json"):
            path.unlink()
    said = []
    assert newest(copied, lambda *damage: said.append(damage)) == 3
    assert said == [(copied / "checkpoint", "names no checkpoint", copied / "ckpt-3")]


def test_a_checkpoint_of_a_version_without_checksums_is_verified_too(copied):
    for path in copied.glob("*.json"):
        path.unlink()
    assert newest(copied, pytest.fail) == 3
    flip(copied / DATA, 0.1)
    said = []
    assert newest(copied, lambda *damage: said.append(damage)) == 2
    [(path, fact, used)] = said
    assert (path, used) == (copied / "ckpt-3", copied / "ckpt-2")
    assert re.match(r"cannot be read \(.*[Cc]hecksum does not match", fact), fact


def test_auto_is_the_precision_of_the_run_on_another_machine(copied, monkeypatch):
    """A machine whose CPU has bfloat16 would choose that."""
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: True)
    options, events = dataclasses.replace(options_in(copied.parent), precision="auto"), []
    train_on(tiny.data(), options, events.append)
    [started] = [event for event in events if isinstance(event, RunStarted)]
    assert started.precision == "float32"
    named = dataclasses.replace(options, precision="mixed_bfloat16")
    with pytest.raises(InputError, match="precision was 'float32', is 'mixed_bfloat16'"):
        train_on(tiny.data(), named)


def test_a_run_whose_last_checkpoint_is_damaged_resumes_at_the_one_before(copied, finished):
    flip(copied / DATA)
    events = []
    train_on(tiny.data(), options_in(copied.parent), events.append)
    assert [type(event) for event in events[:2]] == [Notice, RunStarted]
    assert events[0].text.startswith(f"{copied / DATA} has the CRC32C ")
    assert events[0].text.endswith("; the run resumes at the checkpoint ckpt-2")
    assert events[1].first_epoch == 3
    assert_same(finished, copied.parent)
    left = {path.name.partition(".")[0] for path in copied.iterdir()}
    assert left == {"checkpoint", "ckpt-2", "ckpt-4"}  # no number names two of them


def test_a_run_without_a_whole_checkpoint_ends_with_the_names_of_all(copied):
    flip(copied / DATA)
    cut(copied / "ckpt-2.index")
    pattern = r"No checkpoint .*ckpt-3.data\S+ has the CRC32C.*; .*ckpt-2.index has .* delete "
    with pytest.raises(DamageError, match=pattern) as error:
        train_on(tiny.data(), options_in(copied.parent))
    assert error.value.exit_code == 4
    shutil.rmtree(copied)  # as the message says
    events = []
    train_on(tiny.data(), options_in(copied.parent), events.append)
    assert events[0].first_epoch == 1


HOLDING = """
import sys
from pathlib import Path
from trainer.checkpointing.run_lock import RunLock

lock = RunLock(Path(sys.argv[1]))
lock.acquire(print)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_run_in_a_directory_is_refused_until_the_first_has_ended(options, repository):
    given = options(epochs=1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(given.run_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    assert holder.stdout.readline() == "held\n"
    pattern = rf"run is in use by process {holder.pid} on {socket.gethostname()} since 20\S+Z?\."
    with pytest.raises(InputError, match=pattern):
        train_on(tiny.data(), given)
    assert [path.name for path in given.run_dir.iterdir()] == ["lock"]
    holder.kill()  # the kernel releases it
    holder.communicate()
    train_on(tiny.data(), given)
    assert not (given.run_dir / "lock").exists()


def test_a_run_that_does_not_begin_leaves_no_directory(options):
    given = options(batch_size=1000)
    with pytest.raises(UsageError):
        train_on(tiny.data(batch_size=1000), dataclasses.replace(given, model="tiny:no_weights"))
    assert not given.run_dir.exists()


def test_locks_that_are_released_and_taken_at_the_same_time_are_held_by_one(tmp_path):
    """The file is deleted at the release: whoever has it open then must not think that it holds."""
    holders, most = [], []

    def take():
        for _ in range(200):
            lock = RunLock(tmp_path / "run")
            try:
                lock.acquire(pytest.fail)
            except InputError:
                continue
            holders.append(1)
            most.append(len(holders))
            holders.pop()
            lock.release()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(take) for _ in range(4)]:
            done.result()
    assert max(most) == 1


def test_a_file_system_without_locks_is_named(options, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    events = []
    train_on(tiny.data(), options(epochs=1), events.append)
    fact = f"{options().run_dir} cannot be locked (No locks available)"
    assert events[0] == Notice(f"{fact}; make sure that no other run writes to it")


@pytest.mark.parametrize("epochs", [[1], [{}], [{"epoch": 1, "more": 2}]])
def test_a_history_of_other_fields_is_refused(begun, epochs):
    (begun.run_dir / "history.json").write_text(json.dumps(epochs))
    with pytest.raises(
        InputError, match=r"history.* does not hold the epochs that this version writes: "
    ):
        train_on(tiny.data(), begun)


def test_a_model_and_a_checkpoint_that_find_no_room_are_reported(begun):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # Room for history.json and the events, not for the weights.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        with pytest.raises(
            InputError, match=r"Cannot write the model to .*/best.keras: .* Free some"
        ):
            train_on(tiny.data(), begun)
        unmeasured = dataclasses.replace(tiny.data(), validation=None)
        with pytest.raises(
            InputError, match=r"Cannot write a checkpoint to .*/checkpoints: .* Free some"
        ):
            train_on(unmeasured, begun)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert len(train_on(tiny.data(), begun).history) == 2


@pytest.mark.parametrize(
    "name", [*proofs("tensorboard"), "tensorboard/train", *proofs("tensorboard/steps")]
)
def test_a_file_in_the_place_of_the_folder_of_events_is_reported(begun, name):
    shutil.rmtree(begun.run_dir / "tensorboard")
    path = begun.run_dir / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with pytest.raises(InputError, match=r"Cannot write to .*/tensorboard: .*ot a directory"):
        train_on(tiny.data(), begun)
    path.unlink()
    assert len(train_on(tiny.data(), begun).history) == 2


@pytest.mark.figures
@pytest.mark.parametrize(
    "name", ["learning_curve.png", "history.json", *proofs("confusion_matrix.csv")]
)
def test_a_folder_in_the_place_of_a_file_is_reported(options, name):
    given = options(epochs=1)
    (given.run_dir / name).mkdir(parents=True)
    (given.run_dir / "run.json").write_text("{}")
    with pytest.raises(InputError, match=f"Is a directory: .*{name}.* Fix that and run the same"):
        train_on(tiny.data(), given)
    assert not list(given.run_dir.glob("*.tmp"))
    (given.run_dir / name).rmdir()
    assert len(train_on(tiny.data(), given).history) == 1


@pytest.mark.parametrize("room", [0, 40, 400, 1000])
def test_a_start_without_room_is_reported(options, room):
    """Of one file; events of TensorBoard, run.json and the history find it one after the other."""
    given = options(epochs=1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(InputError):
            train_on(tiny.data(), given)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert len(train_on(tiny.data(), given).history) == 1
