"""Several processes share a cache directory that is too small for all of them; some are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reader.cache.inventory import Item
from reader.cache.store import Store
from shard_format import file_sha256, load_manifest

# Copies slowly, keeps reading the copies that it has a lease on, and says what it copied. It uses
# the parts of the cache without TensorFlow's pipeline, whose start would take longer than all else.
_READER = """
import sys, time, random
from pathlib import Path
from reader.cache import copying
from reader.cache.inventory import Item
from reader.cache.copying import Wanted, fetch
from reader.cache.store import Store
from shard_format import file_sha256, load_manifest

root, cache, limit, rounds, seed = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])
manifest = load_manifest(root)
draw, copied = random.Random(seed), 0
copying._BLOCK_BYTES = 2000

def slowly(size):
    global copied
    copied += size
    time.sleep(0.0005)

print("ready", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    split = manifest.splits[draw.choice(["train", "test"])]
    store = Store(cache, limit)
    items = [Item(f"{manifest.root_hash}/{shard.file}", shard.bytes) for shard in split.shards]
    lease = store.lease(items, partial=True)
    for shard in split.shards:
        path = cache / manifest.root_hash / shard.file
        if f"{manifest.root_hash}/{shard.file}" in lease.names:
            fetch(root, Wanted(shard.file, path, shard.bytes, shard.sha256), slowly)
    for shard in split.shards:
        path = cache / manifest.root_hash / shard.file
        if f"{manifest.root_hash}/{shard.file}" in lease.names:
            assert file_sha256(path) == shard.sha256, path
    lease.end()
print(copied)
"""


def start(root: Path, cache: Path, limit: int, rounds: int, seed: int) -> subprocess.Popen[str]:
    values = map(str, (root, cache, limit, rounds, seed))
    process = subprocess.Popen(
        [sys.executable, "-c", _READER, *values],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process


def go(processes: list[subprocess.Popen[str]]) -> None:
    """Lets all begin at once, when all are ready."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.stderr and process.stderr.read()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def finished(process: subprocess.Popen[str]) -> int:
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return int(output)


def test_processes_that_come_together_copy_once(tiny: Path, tmp_path: Path) -> None:
    size = sum(split.bytes for split in load_manifest(tiny).splits.values())
    processes = [start(tiny, tmp_path, 10 * size, 6, seed) for seed in range(3)]
    go(processes)
    assert sum(finished(process) for process in processes) == size


def test_a_limit_holds_and_everybody_reads_right_bytes(tiny: Path, tmp_path: Path) -> None:
    """One is killed amid a copy; what it has left hinders nobody, and is gone in the end."""
    splits = load_manifest(tiny).splits
    limit = splits["train"].bytes * 2 // 3  # neither split and half of the other
    processes = [start(tiny, tmp_path, limit, 40, seed) for seed in range(3)]
    go(processes)
    victim = processes.pop()
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.part")) and time.monotonic() < deadline:
        time.sleep(0.001)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    copied = [finished(process) for process in processes]
    assert sum(copied) > limit  # so there was eviction
    store = Store(tmp_path, limit)
    entries = store.entries()
    assert sum(entry.bytes for entry in entries) <= limit
    assert not any(entry.in_use for entry in entries)
    assert not list(tmp_path.rglob("*.part")) and not list((tmp_path / ".leases").iterdir())
    hashes = {shard.file: shard.sha256 for split in splits.values() for shard in split.shards}
    for entry in entries:
        path = tmp_path / entry.name
        assert file_sha256(path) == hashes[path.name]


_STREAM = """
import sys
import reader
stream = reader.load(
    sys.argv[1], split=sys.argv[3], batch_size=7, image_size=8, seed=1, cache="disk",
    cache_stage=sys.argv[4], cache_dir=sys.argv[2], cache_limit=int(sys.argv[5]),
)
import hashlib
digest = hashlib.sha256()
for x, y in stream.dataset.take(40):
    digest.update(x.numpy().tobytes() + y.numpy().tobytes())
for copies in stream.copies:
    copies.wait()
print(digest.hexdigest())
"""


@pytest.mark.proof
@pytest.mark.parametrize("stage", ["stored", "decoded"])
def test_streams_of_several_processes(tiny: Path, tmp_path: Path, batches: Any, stage: str) -> None:
    import hashlib

    manifest = load_manifest(tiny)
    limit = 40_000 if stage == "stored" else 10**9
    command = [sys.executable, "-c", _STREAM, str(tiny), str(tmp_path)]
    processes = [
        subprocess.Popen([*command, split, stage, str(limit)], stdout=subprocess.PIPE, text=True)
        for split in ("train", "test", "train")
    ]
    outputs = [process.communicate(timeout=250)[0].strip() for process in processes]
    expected = []
    for split in ("train", "test", "train"):
        digest = hashlib.sha256()
        plain, _ = batches(
            tiny, 40, split=split, batch_size=7, image_size=8, seed=1, augment="none", cache="off"
        )
        for x, y in plain:
            digest.update(x.tobytes() + y.tobytes())
        expected.append(digest.hexdigest())
    assert outputs == expected
    store = Store(tmp_path, limit)
    assert sum(entry.bytes for entry in store.entries()) <= limit
    assert not any(entry.in_use for entry in store.entries())
    shards = [Item(f"{manifest.root_hash}/x", limit)]
    assert store.lease(shards).names  # nobody holds anything
