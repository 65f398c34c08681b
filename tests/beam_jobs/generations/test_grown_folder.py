"""--append of a folder that has grown: what was read before is not read again."""

from __future__ import annotations

import os

from beam_jobs.generations.compact import compact
from shard_format import load_manifest, naming, verify

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(12)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(4)}


def test_only_new_files_are_read(write_corpus, begin_set, append_to, tmp_path):
    corpus = write_corpus("corpus", OLD)
    (corpus / "a" / "broken.jpg").write_bytes(b"no image")
    begin_set(corpus, num_shards=2)
    write_corpus("corpus", NEW)
    notes: list[str] = []
    grown = append_to(corpus, on_note=notes.append)
    assert (grown.own.ledger.read, grown.own.ledger.kept) == (4, 4)
    assert notes[-1].startswith("13 of 17 files") and "4 files" in notes[-1]
    # Nothing is new: the same command changes nothing.
    before = {path: path.read_bytes() for path in tmp_path.joinpath("set").rglob("*.json")}
    assert append_to(corpus).already_built
    assert {path: path.read_bytes() for path in before} == before
    # A file that was changed, or touched, is read.
    image = corpus / "a" / "new0.jpg"
    status = image.stat()
    os.utime(image, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    touched = append_to(corpus)
    assert (touched.own.ledger.read, touched.own.ledger.duplicates) == (1, 1)
    assert verify(tmp_path / "set")[1] == []


def test_the_ledger_is_that_of_a_build_of_all(write_corpus, begin_set, append_to, tmp_path):
    corpus = write_corpus("corpus", OLD)
    begin_set(corpus)
    write_corpus("corpus", NEW)
    append_to(corpus)
    whole = begin_set(corpus, "whole")
    assert compact(tmp_path / "set").manifest.root_hash == whole.root_hash
    assert append_to(corpus).already_built
    # Of a record that was taken out, the file is known still: it does not come back.
    compact(tmp_path / "set", ["a/old0.jpg"])
    assert append_to(corpus).already_built
    write_corpus("corpus", {"a/last": 300})
    assert append_to(corpus).own.ledger.read == 1


def test_without_the_list_all_is_read(write_corpus, begin_set, append_to, tmp_path):
    corpus = write_corpus("corpus", OLD)
    begin_set(corpus, no_fingerprints=True)
    assert not (tmp_path / "set" / naming.READ_ITEMS).exists()
    write_corpus("corpus", NEW)
    ledger = append_to(corpus).own.ledger
    assert (ledger.read, ledger.duplicates) == (16, 12)
    assert load_manifest(tmp_path / "set").ledger.kept == 16
