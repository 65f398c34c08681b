"""Builds into a bucket that are killed: the same command ends with the same objects."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation import storage
from foundation.storage import Stat, place_of
from tests.servers.server import Server
from tests.servers.test_builds import CLEAN, connected, root_hash, shardmill
from tests.servers.versitygw import versitygw

pytestmark = pytest.mark.engine

KILLS = 6
OPTIONS = ("--resize", "shorter:200", "--unit-size", "64KiB", "--num-shards", "8", "--workers", "2")


def start(server: Server, source: Path, out: str) -> subprocess.Popen[bytes]:
    """A build as a user starts it, with processes of its own group."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "preprocess", "images", str(source), "--out", out]
        + [*OPTIONS],
        env={**CLEAN, "PYTHONPATH": str(Path(__file__).parents[2]), **server.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def listed(out: str) -> dict[str, int]:
    """The sizes of the objects of a set, but for those that have times of the build."""
    tree: Iterator[tuple[str, Stat]] = storage.list_tree(place_of(out))
    return {name: stat.size for name, stat in tree if name not in ("build.json", "report.html")}


def count(out: str) -> int:
    """How many objects there are, of the set and of the build."""
    return len(list(storage.list_tree(place_of(out))))


def test_builds_that_are_killed_are_completed_by_the_same_command(samples, tmp_path):
    moments = random.Random(13)
    with versitygw(tmp_path) as server, connected(server):
        whole = f"{server.bucket}/whole"
        build, most = start(server, samples, whole), 0
        while build.poll() is None:
            most = max(most, count(whole))
        assert build.returncode == 0
        expected = root_hash(whole), listed(whole)
        unfinished = 0
        for number in range(KILLS):
            out = f"{server.bucket}/killed-{number}"
            killed, moment = start(server, samples, out), moments.uniform(0.05, 0.95) * most
            while killed.poll() is None and count(out) < moment:
                pass
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
            unfinished += bool(list(storage.list_tree(place_of(f"{out}/.shardmill"))))
            arguments = ("preprocess", "images", str(samples), "--out", out, *OPTIONS)
            done = shardmill(server.environment, *arguments)
            assert done.returncode == 0, done.stderr
            assert (root_hash(out), listed(out)) == expected
        assert unfinished >= KILLS // 2  # most kills came in the middle


def test_a_second_build_into_a_bucket_is_refused(samples, tmp_path):
    corpus = tmp_path / "corpus"
    for number in range(8):  # so that the first build has work left when the second one looks again
        shutil.copytree(samples, corpus / str(number))
    with versitygw(tmp_path) as server, connected(server):
        out = f"{server.bucket}/set"
        first = start(server, corpus, out)
        leases = place_of(f"{out}/.shardmill/leases")
        while not list(storage.list_tree(leases)):
            assert first.poll() is None
            time.sleep(0.02)
        os.kill(first.pid, signal.SIGSTOP)  # it holds the lease, and writes nothing
        second = start(server, corpus, out)
        time.sleep(3)
        assert second.poll() is None  # it waits to see whether the first one lives
        os.kill(first.pid, signal.SIGCONT)
        assert second.wait(timeout=60) == 3
        assert first.wait(timeout=200) == 0
        assert root_hash(out)
        assert not list(storage.list_tree(leases))
