"""The ways through the code stay short: a change that makes one longer is seen here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# The files and functions of the product that a way may enter: a little more than it does. Who makes
# a way shorter lowers its limit.
LIMITS = {
    "images job": (125, 896),  # aim: 75 files
    "images job, stage": (43, 186),  # aim: 30
    "images job, plan": (36, 172),  # aim: 25
    "images job, shard": (23, 127),  # aim: 22
    "images job, commit": (59, 320),  # aim: 30
    "text job": (136, 936),  # aim: 85
    "text job, stage": (55, 237),  # aim: 40
    "text job, plan": (36, 177),  # aim: 25
    "text job, shard": (24, 128),  # aim: 22
    "text job, commit": (58, 309),  # aim: 30
    "images first batch": (53, 286),  # aim: 26
    "text first batch": (47, 263),  # aim: 22
}


@pytest.fixture(scope="module")
def ways(repository):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ways", "--json"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])["ways"]


def test_every_way_has_a_limit(ways):
    assert set(ways) == set(LIMITS)


@pytest.mark.parametrize("way", LIMITS)
def test_a_way_enters_no_more_files_and_functions(ways, way):
    files, functions = LIMITS[way]
    assert 0 < ways[way]["files"] <= files
    assert 0 < ways[way]["functions"] <= functions
