from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import reader
from reader import cache as caches
from shard_format import DamageError, ShardInfo, SplitInfo, UsageError, load_manifest

GB = 10**9


def choose(size: int, memory: int, **options: Any) -> caches.CacheChoice:
    split = SplitInfo((ShardInfo("s", 1, size, ""),), {})
    epochs = options.get("epochs")
    with (
        mock.patch("reader.cache.available_memory_bytes", return_value=memory),
        mock.patch("reader.cache.on_network", return_value=options.get("network", False)),
        mock.patch("reader.cache._disk_free", return_value=options.get("disk", 0)),
    ):
        return caches.choose_cache("auto", split, epochs, Path("set"), Path("cache"))


@pytest.mark.parametrize(
    ("found", "cache", "reason"),
    [
        (choose(2 * GB, 9 * GB), "memory", "the split has 2 GB, within a quarter of the 9 GB"),
        (choose(3 * GB, 9 * GB), "off", "beyond a quarter of the 9 GB of memory available"),
        (choose(2 * GB, 9 * GB, epochs=1), "off", "every record is read once"),
        (choose(3 * GB, 9 * GB, network=True, disk=20 * GB), "disk", "on a network file system"),
        (choose(3 * GB, 9 * GB, network=True, disk=9 * GB), "off", "free space in cache"),
    ],
)
def test_auto_chooses_and_says_why(found: caches.CacheChoice, cache: str, reason: str) -> None:
    assert found.cache == cache and reason in found.reason


def test_memory_is_what_the_container_leaves(tmp_path: Path) -> None:
    (tmp_path / "max").write_text("1000\n")
    (tmp_path / "used").write_text("400\n")
    files = ((str(tmp_path / "max"), str(tmp_path / "used")),)
    with mock.patch("reader.cache._CGROUP_FILES", files):
        assert caches.available_memory_bytes() == 600
        (tmp_path / "max").write_text("max\n")
        assert caches.available_memory_bytes() > 10**6


def test_network_file_systems_are_told_from_the_mount_table(tmp_path: Path) -> None:
    parts = [
        mock.Mock(mountpoint="/", fstype="ext4"),
        mock.Mock(mountpoint=str(tmp_path), fstype="nfs4"),
    ]
    with mock.patch("psutil.disk_partitions", return_value=parts):
        assert caches.on_network(tmp_path / "set")
        assert not caches.on_network(tmp_path.parent)


def test_disk_cache_is_filled_once_and_named_by_the_root_hash(tiny: Path, tmp_path: Path) -> None:
    manifest = load_manifest(tiny)
    target = tmp_path / "c" / manifest.root_hash
    split = manifest.splits["train"]
    paths = caches.fill_disk_cache(tiny, split, target)
    assert [path.read_bytes() for path in paths] == [
        (tiny / shard.file).read_bytes() for shard in split.shards
    ]
    assert sorted(path.name for path in target.iterdir()) == sorted(
        [".lock", *(shard.file for shard in split.shards)]
    )
    with mock.patch("reader.cache._copy_shard", side_effect=AssertionError("copied again")):
        assert caches.fill_disk_cache(tiny, split, target) == paths


def test_what_a_killed_process_left_is_replaced(tiny: Path, tmp_path: Path) -> None:
    split = load_manifest(tiny).splits["train"]
    file = split.shards[0].file
    (tmp_path / f"{file}.part").write_bytes(b"half of it")
    (tmp_path / file).write_bytes(b"short")
    caches.fill_disk_cache(tiny, split, tmp_path)
    assert (tmp_path / file).read_bytes() == (tiny / file).read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_damage_is_not_cached(make_set: Any, tmp_path: Path) -> None:
    directory = make_set({"train": (5, 5)})
    split = load_manifest(directory).splits["train"]
    shard = directory / split.shards[1].file
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DamageError, match=f"SHA-256, it differs in {shard}"):
        caches.fill_disk_cache(directory, split, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").glob("*tfrecord*")] == [split.shards[0].file]


def test_no_room_is_said_before_anything_is_copied(tiny: Path, tmp_path: Path) -> None:
    with (
        mock.patch("shutil.disk_usage", return_value=mock.Mock(free=1000)),
        pytest.raises(UsageError, match=r"room for the split .* 0.001 MB free"),
    ):
        reader.load(tiny, batch_size=4, image_size=8, cache="disk", cache_dir=tmp_path)
    assert not list(tmp_path.rglob("*tfrecord*"))


def test_a_cache_directory_that_cannot_be_made(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="needs a directory that can be written to"):
        reader.load(tiny, batch_size=4, image_size=8, cache="disk", cache_dir=tmp_path / "file")


def test_the_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch")
    assert caches.default_cache_dir() == Path("/scratch/shardmill")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert caches.default_cache_dir() == Path.home() / ".cache" / "shardmill"


# They wait for each other and copy slowly, so that they surely meet; each prints how many shards
# it copied itself.
_FILL = """
import os, sys, time
from pathlib import Path
from reader import cache
from shard_format import load_manifest
copied, copy = [], cache._copy_shard
def slow(*arguments):
    time.sleep(0.2)
    copied.append(copy(*arguments))
cache._copy_shard = slow
source, target = map(Path, sys.argv[1:])
(target.parent / f"ready-{os.getpid()}").touch()
while len(list(target.parent.glob("ready-*"))) < 2:
    time.sleep(0.01)
cache.fill_disk_cache(source, load_manifest(source).splits["train"], target)
print(len(copied))
"""


def test_two_processes_fill_the_cache_at_once(tiny: Path, tmp_path: Path) -> None:
    target = tmp_path / "cache"
    command = [sys.executable, "-c", _FILL, str(tiny), str(target)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    copied = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    split = load_manifest(tiny).splits["train"]
    assert sum(copied) == len(split.shards)
    for shard in split.shards:
        assert (target / shard.file).read_bytes() == (tiny / shard.file).read_bytes()
