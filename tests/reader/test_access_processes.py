"""Random access by threads, by processes, and under the loaders of PyTorch and Grain."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from reader.access.open_files import OpenFiles

MakeSet = Callable[..., Path]


def _open_shards(directory: Path) -> int:
    """How many shards of a set this process has open."""
    targets = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
    return sum(target.startswith(f"{directory}/tiny-") for target in targets)


def test_threads_read_what_one_reads(make_set: MakeSet) -> None:
    # One file open at a time: every thread takes it away from the others.
    directory = make_set({"train": (1, 3, 2, 7, 4)})
    data = reader.random_access(directory, max_open_files=1)
    numbers = [random.Random(0).randrange(17) for _ in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        labels = list(pool.map(lambda number: data[number]["label"], numbers))
    assert labels == numbers
    assert _open_shards(directory) == 1


def test_open_files_are_bounded_and_given_back(make_set: MakeSet) -> None:
    directory = make_set({"train": (1,) * 40})
    data = reader.random_access(directory, max_open_files=3)
    assert _open_shards(directory) == 0
    most = 0
    for number in [*range(40), *range(40)]:
        assert data[number]["label"] == number
        most = max(most, _open_shards(directory))
    assert most == 3
    del data
    assert _open_shards(directory) == 0


def test_the_least_used_file_goes_first(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(path.name.encode() * 10)
    files = OpenFiles(paths, 2)
    assert files.read(0, 2, 3) == b"aaa" and files.read(1, 8, 5) == b"bb"
    assert files.read(0, 0, 1) == b"a" and files.read(2, 0, 1) == b"c"  # b goes
    for path in paths:
        path.unlink()
    assert files.read(0, 9, 1) == b"a" and files.read(2, 10, 1) == b""
    with pytest.raises(FileNotFoundError):
        files.read(1, 0, 1)


def test_a_read_that_comes_in_parts_is_whole(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, start: pread(file, min(size, 7), start))
    assert OpenFiles([tmp_path / "a"], 1).read(0, 10, 50) == bytes(range(10, 60))
    assert OpenFiles([tmp_path / "a"], 1).read(0, 90, 50) == bytes(range(90, 100))


def test_pickled_it_is_small_and_finds_its_files(
    make_set: MakeSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_set({"train": (1,) * 30})
    monkeypatch.chdir(directory.parent)
    data = reader.random_access(directory.name)[3::2]
    pickled = pickle.dumps(data)
    assert len(pickled) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    assert _open_shards(directory) == 0
    assert len(again) == len(data) == 14 and repr(again) == repr(data)
    assert [record["label"] for record in again] == list(range(3, 30, 2))
    assert again.info.class_names == data.info.class_names


def test_a_fork_reads_on(tiny: Path) -> None:
    data = reader.random_access(tiny, max_open_files=2)
    files = data._opened()._files
    assert data[0]["label"] == 0
    with files._lock:  # as another thread would hold it that moment
        child = os.fork()
        if child == 0:
            signal = threading.Timer(20, os._exit, [2])  # were it to wait for ever
            signal.daemon = True
            signal.start()
            right = all(data[number]["label"] == number for number in (0, 60, 109, 3))
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert data[70]["label"] == 70


def test_spawned_processes_read(tiny: Path) -> None:
    program = """
import multiprocessing, operator, reader, sys
if __name__ == "__main__":
    data = reader.random_access(sys.argv[1])
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(data.__getitem__, range(110), chunksize=10)
    print([record["label"] for record in found] == list(range(110)))
"""
    path = tiny.parent / "spawning.py"
    path.write_text(program)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(path), str(tiny)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.interop
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_pytorch_loads_with_workers(tiny: Path, start: str) -> None:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        reader.random_access(tiny),
        batch_size=16,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=start,
    )
    labels: list[int] = []
    for batch in loader:
        assert (
            batch["image"].shape[1:] == (24, 32, 3) and str(batch["image"].dtype) == "torch.uint8"
        )
        assert batch["id"] == [f"r{label}" for label in batch["label"].tolist()]
        labels += batch["label"].tolist()
    assert len(loader) == 7
    assert sorted(labels) == list(range(110)) != labels


@pytest.mark.interop
def test_grain_reads_it_as_a_source(tiny: Path) -> None:
    import grain

    data = reader.random_access(tiny)
    assert isinstance(data, grain.sources.RandomAccessDataSource)
    dataset = grain.MapDataset.source(data).shuffle(seed=1).map(lambda record: record["label"])
    labels = [int(label) for batch in dataset.batch(10) for label in batch]
    assert sorted(labels) == list(range(110)) != labels
    assert list(dataset.slice(slice(0, 5))) == labels[:5]


@pytest.mark.interop
def test_grain_loads_with_workers_and_goes_on(tiny: Path) -> None:
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # Grain's processes ask for its flags

    def loader() -> Any:
        data = reader.random_access(tiny)
        sampler = grain.samplers.IndexSampler(len(data), shuffle=True, seed=3, num_epochs=1)
        return grain.DataLoader(
            data_source=data,
            sampler=sampler,
            operations=[grain.transforms.Batch(10)],
            worker_count=2,
        )

    whole = [batch["label"].tolist() for batch in loader()]
    assert sorted(np.concatenate(whole).tolist()) == list(range(110))
    begun = iter(loader())
    head = [next(begun)["label"].tolist() for _ in range(4)]
    state = begun.get_state()
    resumed = iter(loader())
    resumed.set_state(state)
    assert head + [batch["label"].tolist() for batch in resumed] == whole
