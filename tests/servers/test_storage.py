"""What every storage promises, on a real server of each kind."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from foundation import storage
from foundation.storage import FILE, FOLDER, Place, object_stores, place_of
from tests.servers.azurite import azurite
from tests.servers.fake_gcs import fake_gcs
from tests.servers.hdfs import hdfs
from tests.servers.moto import moto
from tests.servers.races import winner_of_race
from tests.servers.server import Server
from tests.servers.versitygw import versitygw

pytestmark = pytest.mark.engine

LARGE = random.Random(3).randbytes((40 << 20) + 7)  # in several requests
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "versitygw": versitygw,
    "moto": moto,
    "fake-gcs-server": fake_gcs,
    "azurite": azurite,
    "hdfs": hdfs,
}


@pytest.fixture(scope="module", params=SERVERS)
def bucket(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        with mock.patch.dict(os.environ, server.environment):
            object_stores.forget_connections()
            yield place_of(server.bucket)
        object_stores.forget_connections()


@pytest.fixture
def folder(bucket: Place, request: pytest.FixtureRequest) -> Place:
    return bucket / f"test-{request.node.name.partition('[')[0]}"


@pytest.mark.parametrize("size", [0, 1, 100_000, len(LARGE)])
def test_what_is_written_is_read(folder, size):
    place = folder / "deep" / str(size)
    storage.write_bytes(place, LARGE[:size])
    assert storage.read_bytes(place) == LARGE[:size]
    stat = storage.stat(place)
    assert stat is not None and stat.size == size
    assert abs(stat.mtime_ns / 1e9 - time.time()) < 120


@pytest.mark.parametrize("name", ["a b", "%41", "ü+&=", "#?x", "a'b\"c", "{1}~[2]", "日本"])
def test_names_are_kept_as_they_are(folder, name):
    storage.write_bytes(folder / name, name.encode())
    assert storage.read_bytes(folder / name) == name.encode()
    assert name in [entry.name for entry in storage.list_folder(folder)]
    storage.delete(folder / name)
    assert not storage.exists(folder / name)


def test_an_object_is_seen_when_it_is_whole(folder):
    with storage.create(folder / "new") as file:
        file.write(b"half")
        assert storage.stat(folder / "new") is None
        file.write(b" and half")
    assert storage.read_bytes(folder / "new") == b"half and half"


def test_a_write_that_fails_leaves_what_was_there(folder):
    storage.write_bytes(folder / "old", b"old")
    for size in (10, len(LARGE)):
        with pytest.raises(KeyError), storage.create(folder / "old") as file:
            file.write(LARGE[:size])
            raise KeyError
    assert storage.read_bytes(folder / "old") == b"old"
    assert [entry.name for entry in storage.list_folder(folder)] == ["old"]


def test_of_twelve_writers_one_creates_an_object(folder):
    for turn in range(20):
        place = folder / str(turn)
        winner = winner_of_race(place)
        assert storage.read_bytes(place) == winner


def test_ranges_are_cut_at_the_end(folder):
    storage.write_bytes(folder / "large", LARGE)
    end = len(LARGE)
    ranges = [(0, 10), (1 << 20, 20 << 20), (end - 5, 10), (end, 10), (end + 5, 10), (7, 0)]
    assert list(storage.read_ranges(folder / "large", ranges)) == [
        LARGE[begin : begin + size] for begin, size in ranges
    ]


def test_a_file_is_read_at_any_place(folder):
    storage.write_bytes(folder / "large", LARGE)
    file = storage.open_random(folder / "large")
    assert file.size == len(LARGE)
    for offset in (0, 39 << 20, 5, len(LARGE) - 1, 20 << 20):
        data = file.read_at(offset, 1000)
        assert data and LARGE[offset:].startswith(data)
    assert file.read_at(len(LARGE), 10) == b""
    file.close()


def test_folders_are_listed_one_level_or_whole(folder):
    for name in ("a/1", "a/b/2", "ab/3", "c"):
        storage.write_bytes(folder / name, name.encode())
    kinds = {entry.name: entry.kind for entry in storage.list_folder(folder)}
    assert kinds == {"a": FOLDER, "ab": FOLDER, "c": FILE}
    sizes = {name: stat.size for name, stat in storage.list_tree(folder / "a")}
    assert sizes == {"1": 3, "b/2": 5}
    assert storage.is_folder(folder / "a") and not storage.is_folder(folder / "c")
    storage.delete_tree(folder / "a")
    assert {entry.name for entry in storage.list_folder(folder)} == {"ab", "c"}


def test_more_objects_than_a_page_are_listed(folder):
    names = {f"{number:05d}" for number in range(1100)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: storage.write_bytes(folder / name, b"x"), names))
    assert {name for name, _ in storage.list_tree(folder)} == names
    assert {entry.name for entry in storage.list_folder(folder)} == names
    storage.delete_tree(folder)
    assert not storage.is_folder(folder)


def test_what_is_missing_is_said(folder):
    missing = folder / "missing"
    assert storage.stat(missing) is None
    assert not storage.is_folder(missing)
    storage.delete(missing)
    storage.delete_tree(missing)
    for read in (storage.read_bytes, lambda place: storage.read_range(place, 0, 10)):
        with pytest.raises(FileNotFoundError) as error:
            read(missing)
        assert error.value.filename == str(missing)


def test_a_second_version_of_the_same_size_is_seen(folder):
    storage.write_bytes(folder / "x", b"one")
    first = storage.stat(folder / "x")
    time.sleep(0.02)  # HDFS has milliseconds
    storage.write_bytes(folder / "x", b"two")
    assert storage.stat(folder / "x") != first


def test_arrow_reads_and_writes(folder):
    table = pa.table({"a": list(range(1000))})
    with storage.create_arrow(folder / "x.arrow") as sink:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    with storage.open_arrow(folder / "x.arrow") as source:
        assert pa.ipc.open_file(source).read_all() == table
