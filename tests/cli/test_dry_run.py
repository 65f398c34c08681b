"""`shardmill preprocess ... --dry-run` fits a terminal and starts nothing."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("job", [("images", "clothing"), ("text", "banking")])
def test_it_fits_a_terminal(shardmill, repository, tmp_path, job):
    source = repository / "samples" / job[1]
    label = ("--label-column", "category") if job[0] == "text" else ()
    done = shardmill("preprocess", job[0], source, *label, "--out", tmp_path / "set", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines[1:])) <= 80 and lines[0].startswith("read  ")
    for heading in ("files", "classes", "options", "work", "sample", "set", "disk", "time"):
        assert any(line.startswith(heading) for line in lines), heading
    assert lines[-1] == "next       nothing was written; leave out --dry-run to begin"
    assert not list(tmp_path.iterdir())


def test_json_is_one_object(shardmill, samples, tmp_path):
    job = ["images", str(samples), "--out", str(tmp_path / "set"), "--dry-run"]
    done = shardmill("preprocess", *job, "--json")
    shown = json.loads(done.stdout)
    assert shown["items"] == 324 and len(shown["classes"]) == 10 and shown["state"] == "new"
    assert not list(tmp_path.iterdir())
