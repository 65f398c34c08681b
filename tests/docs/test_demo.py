"""`shardmill demo`, as `make demo` runs it."""

from __future__ import annotations

import re

import pytest


@pytest.mark.proof
def test_it_ends_above_chance(run, folder):
    command = ("shardmill", "demo", "--out", "demo", "--epochs", "12", "--text-epochs", "3")
    done = run(*command)
    assert done.returncode == 0, done.stderr
    photographs, questions = map(float, re.findall(r"accuracy +([\d.]+)%", done.stdout))
    assert photographs > 17  # 78 photographs, 10 classes: chance gives 10 %, 17 % once in 30
    assert questions > 60  # 640 questions, 16 classes: chance gives 6 %
    places = re.findall(r"^(?:shard set|model|logs) +(demo\S*)$", done.stdout, re.MULTILINE)
    assert len(set(places)) == 6
    for path in places:
        assert (folder / path).exists(), path
    again = run(*command)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("holds this very set already") == 2
    assert re.findall("accuracy.*", again.stdout) == re.findall("accuracy.*", done.stdout)
