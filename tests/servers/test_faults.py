"""The storage layer between faults of the network and of servers, on S3 and on Google's storage.

A request that fails is tried again until it succeeds: nothing is lost, nothing is there twice, and
an object is whole or not there.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from foundation import storage
from foundation.storage import Place, object_stores, place_of
from tests.servers.fake_gcs import fake_gcs
from tests.servers.faults import Fault
from tests.servers.proxy import Proxy, proxy
from tests.servers.races import winner_of_race
from tests.servers.versitygw import versitygw

pytestmark = pytest.mark.engine

SMALL = random.Random(1).randbytes(300_000)
LARGE = random.Random(2).randbytes(40 << 20)  # in several requests

# Each happens to the first two requests that can have it. A stall lasts until the client's limit.
FAULTS = {
    "reset before the request": Fault("reset-before", most=2),
    "reset after the request": Fault("reset-after", most=2),
    "reset in the answer": Fault("reset-body", most=2),
    "truncated answer": Fault("truncated", most=2),
    "slow answer": Fault("slow", most=2, rate=400_000),
    "503": Fault("status", status=503, most=2),
    "429": Fault("status", status=429, most=2),
    "429 that asks to wait": Fault("status", status=429, retry_after=1, most=2),
    "500": Fault("status", status=500, most=2),
}


@pytest.fixture(scope="module", params=["s3", "gs"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp(request.param)
    start = {"s3": versitygw, "gs": fake_gcs}[request.param]
    with start(folder) as server, proxy(server, folder / "proxy") as started:
        with mock.patch.dict(os.environ, started.server.environment):
            object_stores.forget_connections()
            yield started
        object_stores.forget_connections()


@pytest.fixture
def folder(running: Proxy, request: pytest.FixtureRequest) -> Place:
    """A folder of this test; no faults yet."""
    running.set(latency=0, faults=[])
    running.reset()
    return place_of(running.server.bucket) / f"test-{abs(hash(request.node.name))}"


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> Fault:
    return FAULTS[request.param]


def test_ranges_come_whole_and_in_order(running, folder, fault):
    storage.write_bytes(folder / "large", LARGE)
    running.set(faults=[fault])
    ranges = [(begin, 100_000) for begin in range(0, len(LARGE), 2 << 20)]
    pieces = list(storage.read_ranges(folder / "large", ranges))
    assert pieces == [LARGE[begin : begin + size] for begin, size in ranges]
    assert running.counts().faults[fault.name] == 2


def test_a_file_is_read_in_sequence(running, folder, fault):
    storage.write_bytes(folder / "large", LARGE)
    running.set(faults=[fault])
    with storage.open_input(folder / "large") as file:
        assert file.read(10) == LARGE[:10]
        assert file.read() == LARGE[10:]
    assert running.counts().faults[fault.name] == 2


def test_objects_are_written_whole(running, folder, fault):
    for name, data in (("small", SMALL), ("large", LARGE)):
        running.set(faults=[fault])
        storage.write_bytes(folder / name, data)
        running.set(faults=[])
        assert storage.read_bytes(folder / name) == data
    assert {entry.name for entry in storage.list_folder(folder)} == {"small", "large"}


def test_an_object_is_created_once(running, folder, fault):
    running.set(faults=[fault])
    storage.write_bytes(folder / "new", SMALL, if_absent=True)
    running.set(faults=[fault])
    with pytest.raises(FileExistsError):
        storage.write_bytes(folder / "new", b"other", if_absent=True)
    running.set(faults=[])
    assert storage.read_bytes(folder / "new") == SMALL


def test_an_upload_that_breaks_off_leaves_no_half_object(running, folder):
    running.set(faults=[Fault("reset-upload", most=2)])
    storage.write_bytes(folder / "new", LARGE)
    assert storage.read_bytes(folder / "new") == LARGE


def test_a_folder_is_listed(running, folder, fault):
    names = {f"{n:03d}" for n in range(30)}
    for name in names:
        storage.write_bytes(folder / "deep" / name, b"x")
    running.set(faults=[fault])
    assert [entry.name for entry in storage.list_folder(folder)] == ["deep"]
    running.set(faults=[fault])
    assert {entry.name for entry in storage.list_folder(folder / "deep")} == names
    running.set(faults=[fault])
    assert sorted(name for name, _ in storage.list_tree(folder)) == sorted(
        f"deep/{name}" for name in names
    )


def test_files_are_looked_at_and_deleted(running, folder, fault):
    storage.write_bytes(folder / "there", SMALL)
    running.set(faults=[fault])
    stat = storage.stat(folder / "there")
    assert stat is not None and stat.size == len(SMALL)
    running.set(faults=[fault])
    assert storage.stat(folder / "missing") is None
    running.set(faults=[fault])
    storage.delete(folder / "there")
    running.set(faults=[fault])
    storage.delete(folder / "there")
    running.set(faults=[fault])
    assert not storage.exists(folder / "there")


def test_a_folder_is_deleted(running, folder, fault):
    for n in range(5):
        storage.write_bytes(folder / "gone" / str(n), b"x")
    running.set(faults=[fault])
    storage.delete_tree(folder / "gone")
    running.set(faults=[])
    assert not storage.is_folder(folder / "gone")


def test_a_large_folder_is_deleted_through_faults(running, folder):
    """One fault among a hundred requests is not a failure of all, which begin anew then."""
    for n in range(100):
        storage.write_bytes(folder / "gone" / f"{n:03d}", b"x")
    running.reset()
    running.set(faults=[Fault("reset-before", share=0.05)], seed=3)
    storage.delete_tree(folder / "gone")
    running.set(faults=[])
    assert running.counts().kinds["delete"] <= 115
    assert not storage.is_folder(folder / "gone")


@pytest.mark.parametrize("seed", range(3))
def test_of_many_writers_one_creates_an_object_through_faults(running, folder, seed):
    """A lost answer must not make the winner think it lost, or two think that they won."""
    running.set(
        faults=[
            Fault("reset-after", share=0.2),
            Fault("reset-before", share=0.1),
            Fault("status", share=0.1),
        ],
        seed=seed,
    )
    winner = winner_of_race(folder / "raced")
    running.set(faults=[])
    assert storage.read_bytes(folder / "raced") == winner


def test_a_mix_of_faults_changes_nothing(running, folder, tmp_path: Path):
    kinds = ("reset-before", "reset-after", "reset-body", "truncated", "status")
    running.set(faults=[Fault(kind, share=0.03) for kind in kinds], seed=5)
    contents = {f"{n:03d}": random.Random(n).randbytes(20_000) for n in range(150)}
    for name, data in contents.items():
        storage.write_bytes(folder / name, data)
    read = {
        entry.name: storage.read_bytes(folder / entry.name) for entry in storage.list_folder(folder)
    }
    assert read == contents
    assert len(running.counts().faults) == len(kinds)
