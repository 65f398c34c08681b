"""Documents that were refused, mended, and built again."""

from __future__ import annotations

import gzip
import json

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs.quarantine import export, rejected_records, replay_options
from beam_jobs.run import preprocess
from shard_format import InputError, load_manifest


def replay(out, folder):
    options = replay_options(out, folder, (), {"out": str(out), "overwrite": True})
    return preprocess(options).manifest


def row(number):
    return orjson.dumps({"text": f"document {number}", "label": "ab"[number % 2]})


@pytest.fixture
def corpus(file):
    """A corpus with a bad record of every kind; {record id: what it should have been}."""
    good = [row(number) for number in range(200)]
    broken = list(good)
    broken[7] = b"x" * len(good[7])
    file("a.jsonl", b"\n".join(broken))
    packed = list(good)
    packed[5] = b"{" + b" " * (len(good[5]) - 1)
    file("b.jsonl.gz", gzip.compress(b"\n".join(packed)))
    file("c.csv", b"text,label\none,a\ntwo,a,b\nthree,b\n")
    table = pa.table({"text": ["x", None, "z"], "label": ["a", "b", "a"]})
    path = file("d.parquet", b"")
    pq.write_table(table, path)
    at = sum(len(line) + 1 for line in good[:7])
    return path.parent, {
        f"a.jsonl/{at:012d}": good[7],
        f"b.jsonl.gz/{sum(len(line) + 1 for line in good[:5]):012d}": good[5],
        f"c.csv/{len('text,label' + chr(10) + 'one,a' + chr(10)):012d}": b"two,a\n",
        "d.parquet/000000000001": b"the text",
    }


@pytest.mark.parametrize("staging", [False, True])
def test_a_replay_is_the_build_that_never_failed(corpus, build_text, tmp_path, file, staging):
    root, good = corpus
    options = {"staging": str(tmp_path / "staging")} if staging else {}
    ledger = build_text(root, **options).manifest.ledger
    assert ledger.quarantined == 4 and ledger.kept == 402
    out = tmp_path / "set"
    assert {record.record_id for record in rejected_records(out)} == set(good)
    export(out, tmp_path / "refused")
    for name, data in good.items():
        (tmp_path / "refused" / "files" / name).write_bytes(data)
    replayed = replay(out, tmp_path / "refused")
    assert replayed.ledger.quarantined == 0 and replayed.ledger.kept == 406
    # The corpus itself mended.
    lines = [row(number) for number in range(200)]
    file("a.jsonl", b"\n".join(lines))
    file("b.jsonl.gz", gzip.compress(b"\n".join(lines)))
    mended = (root / "c.csv").read_bytes().replace(b"two,a,b", b"two,a")
    (root / "c.csv").write_bytes(mended)
    table = pa.table({"text": ["x", "the text", "z"], "label": ["a", "b", "a"]})
    pq.write_table(table, root / "d.parquet")
    clean = build_text(root, "clean").manifest
    texts = _texts(tmp_path / "clean")
    assert clean.ledger == replayed.ledger
    # The row behind the mended one of the CSV lies two bytes further, all else is the same.
    results = _texts(out)
    assert sorted(results.values()) == sorted(texts.values())
    assert {n for n in results.items() ^ texts.items() if not n[0].startswith("c.csv")} == set()


def _texts(out):
    from shard_format import decode_example
    from shard_format.tfrecord import read_records

    manifest = load_manifest(out)
    results = {}
    for split in manifest.splits.values():
        for shard in split.shards:
            for _, payload in read_records(out / shard.file):
                values = decode_example(payload)
                results[values["id"][0].decode()] = values["text"][0]
    return results


def test_files_left_as_they_were_are_refused_as_before(corpus, build_text, tmp_path, file):
    root, _ = corpus
    text = b"whole document " * 5000
    file("e.txt.gz", gzip.compress(text)[:-20])
    file("f.json", b'[{"text": "a"}, {]')
    file("g.parquet", b"PAR1 and then nothing")
    before = build_text(root, no_labels=True).manifest
    assert before.ledger.quarantined == 7
    export(tmp_path / "set", tmp_path / "refused")
    assert replay(tmp_path / "set", tmp_path / "refused").root_hash == before.root_hash


def test_a_whole_file_is_mended(file, build_text, tmp_path):
    file("a.txt", b"bad \xff")
    file("b.json", b'[{"text": "one"}, {"text": ]')
    root = file("c.txt", "good").parent
    build_text(root, no_labels=True)
    export(tmp_path / "set", tmp_path / "refused")
    (tmp_path / "refused" / "files" / "a.txt").write_text("good now")
    (tmp_path / "refused" / "files" / "b.json").write_text('[{"text": "one"}, {"text": "two"}]')
    replayed = replay(tmp_path / "set", tmp_path / "refused")
    assert replayed.ledger.quarantined == 0
    assert sorted(_texts(tmp_path / "set").values()) == [b"good", b"good now", b"one", b"two"]


def test_a_member_of_an_archive_is_mended(file, packed, build_text, tmp_path):
    members = {"a.txt": b"bad \xff", "b.jsonl": b'{"text": "x"}\n{"text\n', "c.txt": b"fine"}
    path = file("all.tar", packed("tar", members))
    build_text(path, no_labels=True)
    export(tmp_path / "set", tmp_path / "refused")
    files = tmp_path / "refused" / "files" / "all.tar"
    (files / "a.txt").write_bytes(b"good")
    (files / "b.jsonl" / "000000000014").write_bytes(b'{"text": "y"}')
    assert replay(tmp_path / "set", tmp_path / "refused").ledger.quarantined == 0
    assert sorted(_texts(tmp_path / "set").values()) == [b"fine", b"good", b"x", b"y"]


def test_a_filtered_document_is_mended(file, build_text, tmp_path):
    root = file("a.txt", "x\n\nlong enough to be a document\n").parent
    job = {"per_line": True, "clean": "length:min_words=3"}
    ledger = build_text(root, **job).manifest.ledger
    assert ledger.filtered == 1 and ledger.kept == 1
    export(tmp_path / "set", tmp_path / "refused")
    (tmp_path / "refused/files/a.txt/000000000000").write_text("now it is long enough\n")
    assert replay(tmp_path / "set", tmp_path / "refused").ledger.kept == 2
    assert b"now it is long enough" in _texts(tmp_path / "set").values()


def test_only_the_units_with_mended_files_are_staged_again(file, build_text, tmp_path):
    line = row(1) + b" " * 3000
    data = b"\n".join([line] * 3000 + [b"bad"] + [line] * 100)
    root = file("a.jsonl", data).parent
    job = {"staging": str(tmp_path / "staging"), "unit_size": "1MiB"}
    build_text(root, **job)
    export(tmp_path / "set", tmp_path / "refused")
    (path,) = (tmp_path / "refused" / "files" / "a.jsonl").iterdir()
    path.write_bytes(row(2))
    assert replay(tmp_path / "set", tmp_path / "refused").ledger.quarantined == 0
    built = json.loads((tmp_path / "set" / "build.json").read_text())
    assert built["units"] - built["units_reused"] == 1 and built["units"] > 3


def test_a_folder_that_mends_nothing_is_reported(corpus, build_text, tmp_path):
    root, _ = corpus
    build_text(root)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.txt").write_bytes(b"x")
    with pytest.raises(InputError, match="has the path of a record id"):
        replay(tmp_path / "set", tmp_path / "elsewhere")
