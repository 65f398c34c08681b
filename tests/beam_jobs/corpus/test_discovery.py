"""The files of a corpus: symbolic links, cycles, and entries that cannot be looked at."""

from __future__ import annotations

import errno
import os

import pytest

from beam_jobs.corpus import source_io
from beam_jobs.corpus.discovery import find_files
from foundation import storage
from shard_format import InputError


@pytest.fixture
def corpus(tmp_path):
    for name in ("a/1", "a.b/1", "a/deep/2", "b"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "corpus"


def reasons(corpus, **options):
    files = find_files([corpus], lambda _: None, **options)
    return {item.record_id: item.reason for item, _ in files}


def test_files_are_sorted_folder_by_folder(corpus):
    assert list(reasons(corpus)) == ["a/1", "a/deep/2", "a.b/1", "b"]


def test_names_are_sorted_as_bytes(corpus):
    for name in (b"\xff", "\U0001f600".encode(), "\uffee".encode()):
        (corpus / os.fsdecode(name)).write_bytes(b"x")
    results = [name for name in reasons(corpus) if "/" not in name.replace("//", "")]
    assert results == ["b", "\uffee", "\U0001f600", "//xff"]


def test_a_cycle_through_a_folder_elsewhere_ends(corpus, tmp_path):
    (tmp_path / "elsewhere" / "inside").mkdir(parents=True)
    (corpus / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "inside" / "back").symlink_to(corpus)
    (tmp_path / "elsewhere" / "inside" / "self").symlink_to(tmp_path / "elsewhere")
    assert reasons(corpus)["out"] == "outside-link"
    results = reasons(corpus, follow_links=True)
    cycles = {"out/inside/back": "link-cycle", "out/inside/self": "link-cycle"}
    assert {name: reason for name, reason in results.items() if reason} == cycles


def test_a_cycle_through_a_folder_above_ends(corpus, tmp_path):
    (corpus / "up").symlink_to(tmp_path)
    results = reasons(corpus, follow_links=True)
    assert results["up/corpus"] == "link-cycle"  # a folder, not a link


@pytest.fixture
def failing_stat(monkeypatch):
    """A listing says nothing about `b`; a second look fails so many times."""
    monkeypatch.setattr(source_io, "RETRY_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(source_io, "_last_failure", float("-inf"))
    listed, stat = storage.LOCAL.list_folder, storage.LOCAL.stat
    times = [0]

    def list_folder(place):
        for entry in listed(place):
            yield entry._replace(kind=storage.UNKNOWN) if entry.name == "b" else entry

    def failing(place):
        times[0] -= 1
        if times[0] >= 0:
            raise OSError(errno.EIO, "Input/output error", str(place))
        return stat(place)

    monkeypatch.setattr(storage.LOCAL, "list_folder", list_folder)
    monkeypatch.setattr(storage.LOCAL, "stat", failing)
    return times


def test_an_entry_is_looked_at_again(corpus, failing_stat):
    failing_stat[0] = 2
    assert reasons(corpus)["b"] == ""


def test_an_entry_that_cannot_be_looked_at_is_not_lost(corpus, failing_stat):
    failing_stat[0] = 3
    with pytest.raises(InputError, match="Cannot list the source: Input/output error"):
        reasons(corpus)
    failing_stat[0] = 3
    results = reasons(corpus, on_unreadable="quarantine")
    assert {name: reason for name, reason in results.items() if reason} == {"b": "unreadable"}
