"""SIGKILL to the commands that change a set, at seeded moments; then the same command again."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time

import pytest

from shard_format import load_manifest, verify

KILLS = 6
COMMANDS = {
    "append": ("preprocess", "images", "{new}", "--append", "--no-report", "--out", "{set}"),
    "compact": ("compact", "{set}"),
}


@pytest.mark.proof
@pytest.mark.parametrize("what", COMMANDS)
def test_sigkill_at_a_seeded_moment(what, write_corpus, begin_set, append_to, tmp_path, repository):
    new = write_corpus("new", {f"{'ab'[n % 2]}/new{n}": 1000 + n for n in range(60)})
    begin_set(write_corpus("old", {f"{'ab'[n % 2]}/old{n}": n for n in range(60)}), "base")
    if what == "compact":
        append_to(new, "base")

    def start(out):
        command = [part.format(new=new, set=tmp_path / out) for part in COMMANDS[what]]
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *command],
            cwd=repository,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def files(out):
        root = tmp_path / out
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))

    shutil.copytree(tmp_path / "base", tmp_path / "whole")
    begun = time.monotonic()
    assert start("whole").wait(timeout=240) == 0
    seconds = time.monotonic() - begun
    expected = load_manifest(tmp_path / "whole").root_hash
    for kill in range(KILLS):
        out = f"kill{kill}"
        shutil.copytree(tmp_path / "base", tmp_path / out)
        process = start(out)
        # The first third is imports.
        time.sleep((1 / 3 + 2 / 3 * (kill + random.Random(kill).random()) / KILLS) * seconds)
        process.kill()
        process.wait()
        assert [one for one in verify(tmp_path / out)[1] if "not part" not in one.problem] == []
        assert start(out).wait(timeout=240) == 0
        assert load_manifest(tmp_path / out).root_hash == expected
        assert files(out) == files("whole")
