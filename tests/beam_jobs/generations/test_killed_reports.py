"""Commands that are killed while, or before, they write the report: the same one completes it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from beam_jobs import ImageOptions, append, preprocess
from beam_jobs.generations.replay import replay_generations
from beam_jobs.report import write_report
from foundation import storage
from shard_format import load_manifest, naming, verify, verify_set
from shard_format.checksums import report_problem
from tests.fixtures.damage import files_of
from tests.fixtures.generations import Killed

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(8)}
NEW = {"a/new": 100, "b/more": 101}


def _die_while_the_report_is_written(patch):
    """Dies in place of giving the report its name; a killed process deletes nothing any more."""
    replace, unlink, dead = os.replace, os.unlink, False

    def die_at_report(source, final, **options):
        nonlocal dead
        if Path(final).name == naming.REPORT:
            dead = True
            raise Killed
        replace(source, final, **options)

    def keep(path, **options):
        if dead:
            raise Killed
        unlink(path, **options)

    patch.setattr(os, "replace", die_at_report)
    patch.setattr(os, "unlink", keep)


def _killed(command, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_while_the_report_is_written(patch)
        command()


def _check_report(place):
    problem = report_problem(
        storage.read_bytes(place / naming.REPORT),
        load_manifest(place).root_hash,
        needs_checksum=True,
    )
    assert problem == ""
    assert verify(place)[1] == []


@pytest.fixture
def sources(write_corpus):
    return write_corpus("old", OLD), write_corpus("new", NEW)


def test_append(sources, begin_set, append_to, tmp_path, monkeypatch):
    for out in ("whole", "set"):
        begin_set(sources[0], out, no_report=False)
    append_to(sources[1], "whole", no_report=False)
    _killed(lambda: append_to(sources[1], no_report=False), monkeypatch)
    # The new file waits in the work folder, and not among those of the set.
    killed = verify_set(tmp_path / "set")
    assert killed.damages == [] and len(killed.notes) == 1
    assert "is that of an earlier generation" in killed.notes[0]
    assert append_to(sources[1], no_report=False).already_built
    _check_report(tmp_path / "set")
    assert files_of(tmp_path / "set") == files_of(tmp_path / "whole")
    report = (tmp_path / "set" / naming.REPORT).stat()
    assert append_to(sources[1], no_report=False).already_built
    assert (tmp_path / "set" / naming.REPORT).stat() == report  # it is current


def test_append_without_a_report(sources, begin_set, append_to, tmp_path, monkeypatch):
    """Of the old report nothing must be left either."""
    from beam_jobs.generations import append as module

    begin_set(sources[0], no_report=False)

    def die(*arguments):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, "_renew_report", die)
        append_to(sources[1])
    assert append_to(sources[1]).already_built
    assert not (tmp_path / "set" / naming.REPORT).exists() and verify(tmp_path / "set")[1] == []


def test_append_in_a_bucket(memory, sources, monkeypatch):
    first = ImageOptions((str(sources[0]),), "memory://bucket/set", split="train=1")
    second = ImageOptions((str(sources[1]),), "memory://bucket/set", append=True)
    preprocess(first)
    create = memory.create

    def die_at_report(place, **options):
        if place.name == naming.REPORT:
            raise Killed
        return create(place, **options)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(memory, "create", die_at_report)
        append(second)
    assert append(second).already_built
    _check_report(storage.Url("memory://bucket/set"))
    names = {name for name, _ in memory.list_tree("memory://bucket/set")}
    assert not [name for name in names if name.startswith(naming.WORK_DIR)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_build(overwrite, sources, begin_set, tmp_path, monkeypatch):
    if overwrite:
        begin_set(sources[1], no_report=False)
    job = ImageOptions(
        (str(sources[0]),), str(tmp_path / "set"), split="train=1", overwrite=overwrite
    )
    _killed(lambda: preprocess(job), monkeypatch)
    assert preprocess(job).manifest.ledger.kept == len(OLD)
    _check_report(tmp_path / "set")
    assert not (tmp_path / "set.new").exists()


def test_build_of_a_set_with_a_report_of_another(sources, begin_set, append_to, tmp_path):
    """As versions that completed no report could leave it."""
    begin_set(sources[0], no_report=False)
    old = (tmp_path / "set" / naming.REPORT).read_bytes()
    append_to(sources[1])
    (tmp_path / "set" / naming.REPORT).write_bytes(old)
    job = ImageOptions((str(sources[0]),), str(tmp_path / "set"), split="train=0.6,test=0.4")
    assert preprocess(job).already_built
    _check_report(tmp_path / "set")


def test_replay(sources, begin_set, append_to, tmp_path, monkeypatch):
    (sources[1] / "a" / "bad.jpg").write_bytes(b"no image")
    begin_set(sources[0], no_report=False)
    append_to(sources[1], no_report=False)
    names = set(files_of(tmp_path / "set")) - {"generations/0001/quarantine/part-00000.parquet"}
    repaired = tmp_path / "repaired"
    (repaired / "a").mkdir(parents=True)
    shutil.copy(sources[0] / "b/old1.jpg", repaired / "a" / "bad.jpg")
    command = lambda: replay_generations(tmp_path / "set", repaired)  # noqa: E731
    _killed(command, monkeypatch)  # in the first generation
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_at_second_report(patch)
        command()
    assert command().ledger.quarantined == 0
    _check_report(tmp_path / "set")
    assert set(files_of(tmp_path / "set")) - {"generations/0001/duplicates.parquet"} == names
    assert not (tmp_path / "set.new").exists()
    assert write_report(tmp_path / "set")


def _die_at_second_report(patch):
    from beam_jobs.generations import append as module

    renew = module._renew_report

    def die(options, base):
        _die_while_the_report_is_written(patch)
        renew(options, base)

    patch.setattr(module, "_renew_report", die)
