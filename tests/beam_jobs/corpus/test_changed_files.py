"""Files that change while a build reads them: rejected, and never part of a set in two versions."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs import preprocess
from beam_jobs.corpus.reading import CorpusReader
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.quarantine import rejected_records
from beam_jobs.stages import stage as staging
from shard_format import InputError
from tests.fixtures.damage import make_corpus

REASON = "changed-while-reading"


def _build(corpus: Path, out: Path, make=TextOptions, **options: object):
    values = {"workers": 1, "no_report": True, "dedup": "off", "keep_empty": True, **options}
    return preprocess(make((str(corpus),), str(out), **values)).manifest


def _when_read(monkeypatch, name: str, change, times: int = 1) -> None:
    """Has a file changed behind its first record, as often as it is read, up to so many times."""
    real, done = CorpusReader.read, [0]

    def read(self, item):
        for number, result in enumerate(real(self, item)):
            yield result
            if number == 0 and name in item.record_id and done[0] < times:
                done[0] += 1
                change(done[0])

    monkeypatch.setattr(CorpusReader, "read", read)


@pytest.fixture
def lines(tmp_path):
    """Three files of JSON Lines."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in "abc":
        rows = [{"text": f"{name} document {number}", "label": name} for number in range(50)]
        (corpus / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return corpus


def _rewrite(path: Path, text: str):
    def change(number: int) -> None:
        path.write_text(text * number)

    return change


def test_a_file_of_many_records(lines, tmp_path, monkeypatch):
    staging_folder = str(tmp_path / "staging")
    changed = lines / "b.jsonl"
    row = json.dumps({"text": "something else", "label": "b"}) + "\n"
    _when_read(monkeypatch, "b.jsonl", _rewrite(changed, row))
    outcomes_by_id = _build(lines, tmp_path / "set", staging=staging_folder)
    assert outcomes_by_id.ledger.reasons == {REASON: 1}
    assert (outcomes_by_id.ledger.kept, outcomes_by_id.ledger.quarantined) == (100, 1)
    # Nothing of it is taken for the version that was listed; the next build has all of the new one.
    again = _build(lines, tmp_path / "again", staging=staging_folder)
    assert again.ledger.reasons == {} and again.ledger.kept == 101
    assert again.root_hash == _build(lines, tmp_path / "fresh").root_hash


def test_the_same_size_and_another_time(lines, tmp_path, monkeypatch):
    def touch(number: int) -> None:
        os.utime(lines / "b.jsonl", ns=(0, number))

    _when_read(monkeypatch, "b.jsonl", touch)
    assert _build(lines, tmp_path / "set").ledger.reasons == {REASON: 1}


def test_a_file_that_is_as_it_was_the_next_time(lines, tmp_path, monkeypatch):
    """A staging folder must not have the unit without it: the same listing finds it whole."""
    file, staging_folder = lines / "b.jsonl", str(tmp_path / "staging")
    expected = _build(lines, tmp_path / "whole").root_hash
    shutil.copy2(file, tmp_path / "copy")
    _when_read(monkeypatch, "b.jsonl", _rewrite(file, "other\n"))
    out = tmp_path / "set"
    assert _build(lines, out, staging=staging_folder).ledger.reasons == {REASON: 1}
    shutil.copy2(tmp_path / "copy", file)
    assert _build(lines, out, staging=staging_folder).root_hash == expected


def test_files_that_change_one_after_the_other(lines, tmp_path, monkeypatch):
    """The unit is read three times; the last one rejects at once what changes."""
    readings = []
    real = staging._stage
    monkeypatch.setattr(
        staging, "_stage", lambda *a, **k: readings.append(k["is_last"]) or real(*a, **k)
    )
    names = iter("abc")
    real_read = CorpusReader.read

    def read(self, item):
        results = list(real_read(self, item))
        if len(results) > 1 and (name := next(names, "")):
            os.utime(item.path, ns=(0, ord(name)))
        yield from results

    monkeypatch.setattr(CorpusReader, "read", read)
    outcomes_by_id = _build(lines, tmp_path / "set", unit_size="32MiB")
    assert readings == [False, False, True]
    assert outcomes_by_id.ledger.reasons == {REASON: 3} and not outcomes_by_id.ledger.kept


def test_one_image(tmp_path, monkeypatch):
    corpus = make_corpus("image", tmp_path / "corpus", 9)
    (corpus / "class0" / "broken.jpg").unlink()
    image = corpus / "class1" / "001.jpg"

    def change(number: int) -> None:
        image.write_bytes(image.read_bytes() + b"more")

    _when_read(monkeypatch, "001.jpg", change, times=99)
    outcomes_by_id = _build(corpus, tmp_path / "set", ImageOptions)
    assert outcomes_by_id.ledger.reasons == {REASON: 1} and outcomes_by_id.ledger.kept == 9
    (row,) = rejected_records(tmp_path / "set")
    assert (row.record_id, row.reason) == ("class1/001.jpg", REASON)
    with pytest.raises(InputError, match=REASON):
        _when_read(monkeypatch, "002.jpg", lambda _: os.utime(corpus / "class2/002.jpg", ns=(0, 1)))
        _build(corpus, tmp_path / "other", ImageOptions, on_bad="fail")


def test_an_archive_and_a_table(tmp_path, monkeypatch):
    """No member and no row of one version is in a set with those of another."""
    photos = make_corpus("image", tmp_path / "photos", 9)
    (photos / "class0" / "broken.jpg").unlink()
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    with tarfile.open(corpus / "a.tar", "w") as file:
        file.add(photos, "")
    _when_read(monkeypatch, "004.jpg", lambda _: os.utime(corpus / "a.tar", ns=(0, 1)))
    outcomes_by_id = _build(corpus, tmp_path / "set", ImageOptions)
    assert outcomes_by_id.ledger.reasons == {REASON: 10} and not outcomes_by_id.ledger.kept
    table = tmp_path / "table"
    table.mkdir()
    rows = pa.table({"text": [f"row {number}" for number in range(99)], "label": ["x"] * 99})
    pq.write_table(rows, table / "a.parquet")
    _when_read(monkeypatch, "a.parquet", lambda _: pq.write_table(rows[:50], table / "a.parquet"))
    assert _build(table, tmp_path / "rows").ledger.reasons == {REASON: 1}


def test_a_file_that_is_removed_after_it_was_read_has_not_changed(lines, tmp_path, monkeypatch):
    def read(self, item, real=CorpusReader.read):
        yield from real(self, item)
        Path(os.fsdecode(item.path)).unlink()

    monkeypatch.setattr(CorpusReader, "read", read)
    assert _build(lines, tmp_path / "set").ledger.kept == 150
