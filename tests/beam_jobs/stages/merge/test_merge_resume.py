"""A build that dies while it merges, or whose runs are damaged, ends with the same set."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from shard_format import InputError, load_manifest, naming, verify
from tests.beam_jobs.stages.merge.builds import OPTIONS, Build, forced_levels
from tests.fixtures.proofs import proofs

ONE_LEVEL, TWO_LEVELS = forced_levels(1), forced_levels(2)


class Killed(BaseException):
    """Not an Exception: nothing may catch it, as nothing can catch SIGKILL."""


def files_of(out):
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*"))


def corpus_of(kind):
    corpus = kind.make(16)
    (corpus / "class1" / kind.file("copy")).write_bytes(
        (corpus / "class1" / kind.file("001")).read_bytes()
    )
    return corpus


@pytest.mark.parametrize(
    "kind", ["image", pytest.param("text", marks=pytest.mark.proof)], indirect=True
)
def test_a_crash_before_any_rename_of_a_merge(kind, build, tmp_path, monkeypatch):
    corpus = kind.make(8)
    expected = build(corpus, "whole", **OPTIONS).manifest.root_hash
    files = files_of(tmp_path / "whole")
    real, crashes = os.replace, 0
    while True:
        out, calls = tmp_path / f"crash{crashes}", 0

        def replace(temporary, final, stop=crashes):
            nonlocal calls
            if "runs-" in str(final):
                if calls == stop:
                    raise Killed
                calls += 1
            real(temporary, final)

        one = Build(kind.options(corpus, out, **OPTIONS), choose=ONE_LEVEL)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            try:
                one.run()
            except Killed:
                pass
            else:
                break
        again = Build(kind.options(corpus, out, **OPTIONS), choose=ONE_LEVEL)
        again.run()
        assert load_manifest(out).root_hash == expected
        assert files_of(out) == files
        crashes += 1
    assert crashes > 3


def test_runs_that_are_done_are_not_written_again(kind, build, tmp_path):
    corpus = corpus_of(kind)
    one = Build(kind.options(corpus, tmp_path / "set", **OPTIONS), choose=TWO_LEVELS)
    one.stage()
    one.merge(one.plan())
    runs = one.workspace.runs
    written = {path: path.stat().st_mtime_ns for path in runs.iterdir()}
    # As if two tasks had been killed: one before its mark, one before its content.
    first, second = sorted(runs.glob("*.json"))[:2]
    first.unlink()
    second.with_suffix(".run").write_bytes(b"cut")
    lost = {first, second, first.with_suffix(".run"), second.with_suffix(".run")}
    again = Build(kind.options(corpus, tmp_path / "set", **OPTIONS), choose=TWO_LEVELS)
    again.stage()
    again.merge(again.plan())
    times = {path: path.stat().st_mtime_ns for path in runs.iterdir()}
    assert set(times) == set(written)
    assert {path for path in times if times[path] != written[path]} == lost


@pytest.mark.parametrize("at", ["rows", *proofs("frames")])
def test_a_damaged_run_is_found_and_written_again(at, kind, build, tmp_path):
    corpus = corpus_of(kind)
    expected = build(corpus, "whole", **OPTIONS).manifest.root_hash
    out = tmp_path / "set"
    one = Build(kind.options(corpus, out, **OPTIONS), choose=ONE_LEVEL)
    one.stage()
    one.merge(one.plan())
    for run in one.workspace.runs.glob("*.run"):
        data = bytearray(run.read_bytes())
        data[200 if at == "rows" else -20] ^= 1
        run.write_bytes(data)
    for _ in range(20):
        try:
            Build(kind.options(corpus, out, **OPTIONS), choose=ONE_LEVEL).run()
        except InputError as error:
            assert "is damaged" in str(error) and "run the same command again" in str(error)
        else:
            break
    assert load_manifest(out).root_hash == expected
    assert verify(out)[1] == []


SCRIPT = """
import sys
from beam_jobs import pipeline
from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from beam_jobs.stages.plan import plan
from tests.beam_jobs.stages.merge.builds import FORCED, forced_levels
pipeline.merging_at = lambda *_: FORCED
plan.choose_levels = forced_levels(2)
options = ImageOptions(
    (sys.argv[1],), sys.argv[2], staging=sys.argv[3], unit_size="32KiB", resize="shorter:128",
    num_shards=12, workers=2, no_report=True, name="clothing", enlarge=True,
)
print(preprocess(options).manifest.root_hash)
"""


@pytest.mark.proof
def test_sigkill_while_runs_are_written(samples, repository, tmp_path):
    def start(out, staging):
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(samples), str(out), str(staging)],
            cwd=repository,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    whole = start(tmp_path / "whole", tmp_path / "other").communicate(timeout=120)[0]
    out, staging = tmp_path / "set", tmp_path / "staging"
    process = start(out, staging)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(staging.glob("runs-*/*.json")):
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (out / naming.MANIFEST).exists()
    units = len(list(staging.glob("units/*.json")))
    assert units > 20

    again = start(out, staging).communicate(timeout=120)[0]
    assert again == whole != ""
    assert files_of(out) == files_of(tmp_path / "whole")
    # Units stay for other builds, runs do not.
    assert [path.name for path in staging.iterdir()] == ["units"]
    assert len(list(staging.glob("units/*.json"))) == units
