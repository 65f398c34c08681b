"""An I/O error is not a property of the data: it stops a unit, and no record is lost."""

from __future__ import annotations

import errno
import os

import pytest

from beam_jobs.corpus import source_io
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import UnreadableError, retried
from beam_jobs.run import preprocess
from shard_format import InputError, load_manifest


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(source_io, "RETRY_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(source_io, "_last_failure", float("-inf"))


def interrupted(kind, corpus, out, when, back, **options):
    """Runs a job whose source is gone while a stage begins, and is there again afterwards."""
    away = corpus.with_name("away")

    def on_progress(stage, done, total):
        if stage == when and corpus.exists():
            corpus.rename(away)

    job = kind.options(corpus, out, workers=1, no_report=True, keep_empty=True, **options)
    try:
        return preprocess(job, on_progress=on_progress)
    finally:
        if back and away.exists():
            away.rename(corpus)


def test_a_source_that_is_away_for_a_moment_loses_nothing(kind, build, tmp_path):
    corpus = kind.make(14)
    expected = build(corpus, "expected").manifest.root_hash
    out = tmp_path / "set"
    with pytest.raises(InputError, match="14 source files cannot be read") as caught:
        interrupted(kind, corpus, out, "stage", back=True)
    assert caught.value.exit_code == 3
    assert "No such file or directory: " in str(caught.value)
    assert not (out / "manifest.json").exists(), "nothing is committed"
    # The same command resumes.
    assert build(corpus, out).manifest.root_hash == expected


def test_an_empty_mount_point_is_not_a_corpus_without_files(kind, build, tmp_path):
    """What a file system leaves behind that is unmounted: an empty folder."""
    corpus = kind.make(6)
    away = tmp_path / "away"

    def on_progress(stage, done, total):
        if stage == "stage" and not away.exists():
            corpus.rename(away)
            for folder in away.iterdir():
                (corpus / folder.name).mkdir(parents=True)

    job = kind.options(corpus, tmp_path / "set", workers=1, no_report=True)
    with pytest.raises(InputError, match="6 source files cannot be read"):
        preprocess(job, on_progress=on_progress)


def test_a_file_that_was_removed_is_rejected(kind, tmp_path):
    corpus = kind.make(6)
    gone = corpus / "class0" / kind.file("000")

    def on_progress(stage, done, total):
        if stage == "stage":
            gone.unlink(missing_ok=True)

    job = kind.options(corpus, tmp_path / "set", workers=1, no_report=True)
    manifest = preprocess(job, on_progress=on_progress).manifest
    assert dict(manifest.ledger.reasons) == {"missing-file": 1}
    assert manifest.ledger.kept == 5


def test_unreadable_files_in_quarantine_are_read_again(kind, build, tmp_path):
    corpus = kind.make(8)
    expected = build(corpus, "expected").manifest.root_hash
    out = tmp_path / "set"
    options = {"on_unreadable": "quarantine", "staging": str(tmp_path / "staging")}
    report = interrupted(kind, corpus, out, "stage", back=True, **options)
    assert dict(report.manifest.ledger.reasons) == {"unreadable": 8}
    assert report.manifest.ledger.quarantined == 8
    # The same command again finds the files readable.
    assert build(corpus, out, **options).manifest.root_hash == expected
    assert load_manifest(out).root_hash == expected
    assert build(corpus, out, **options).already_built


def test_retries_cure_a_moment(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    calls = []

    def operation():
        calls.append(None)
        if len(calls) < 3:
            raise OSError(errno.EIO, "Input/output error")
        return "read"

    assert retried(operation, os.fsencode(tmp_path / "a")) == "read"


def test_after_a_failure_other_files_are_tried_once(tmp_path):
    calls = []

    def operation():
        calls.append(None)
        raise OSError(errno.ESTALE, "Stale file handle")

    for _ in range(3):
        with pytest.raises(UnreadableError, match="Stale file handle"):
            retried(operation, os.fsencode(tmp_path / "a"))
    assert len(calls) == 3 + 1 + 1


def test_a_missing_file_among_others_is_gone(tmp_path):
    (tmp_path / "other").write_bytes(b"x")
    with pytest.raises(Rejection, match="removed after it was listed"):
        retried(lambda: os.open(tmp_path / "a", os.O_RDONLY), os.fsencode(tmp_path / "a"))
    (tmp_path / "other").unlink()
    with pytest.raises(UnreadableError):
        retried(lambda: os.open(tmp_path / "a", os.O_RDONLY), os.fsencode(tmp_path / "a"))
