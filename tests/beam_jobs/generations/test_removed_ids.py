"""compact --remove FILE: exactly the records that are named, or none."""

from __future__ import annotations

import codecs
import json

import pytest

from beam_jobs.generations.compact import compact
from beam_jobs.record_ids import read_ids
from shard_format import InputError, load_manifest

BREAKS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"]


@pytest.fixture
def write_ids(tmp_path):
    def write(content, name="ids.txt"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / name

    return write


@pytest.mark.parametrize("character", BREAKS)
def test_a_line_ends_with_a_line_feed_alone(character, write_ids):
    assert read_ids(write_ids(f"a/x{character}plain.jpg\n\nb\n")) == {
        f"a/x{character}plain.jpg",
        "b",
    }


def test_another_record_is_not_removed(write_corpus, begin_set, tmp_path, records_of, write_ids):
    """Its id is what a line of other line breaks would hold."""
    images = {"a/x": 1, "a/x.jpg\u2028plain": 2, "b/y": 3, "b/z": 4}
    begin_set(write_corpus("old", images))
    compact(tmp_path / "set", read_ids(write_ids("a/x.jpg\u2028plain.jpg\n")))
    assert records_of().keys() == {"a/x.jpg", "b/y.jpg", "b/z.jpg"}


def test_a_byte_order_mark_is_skipped(write_ids):
    assert read_ids(write_ids(codecs.BOM_UTF8 + b"a/x\nb")) == {"a/x", "b"}


@pytest.mark.parametrize("name", ["ids.jsonl", "ids.NDJSON"])
def test_json_lines_hold_any_id(name, write_ids):
    ids = {"a\nb", "c\r", "\ufeffd", *BREAKS}
    lines = [json.dumps(one) for one in sorted(ids)] + ["", json.dumps({"record_id": "e", "n": 1})]
    assert read_ids(write_ids("\r\n".join(lines), name)) == ids | {"e"}


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"a/x\nb\xff\n", "ids.txt", r"Line 2 of .*ids.txt is not UTF-8: byte 1 is 0xff"),
        ("a/x".encode("utf-16"), "ids.txt", "Line 1 of .* is not UTF-8: byte 0 is 0xff"),
        (b"\xef\xbb\xbf\n\n", "ids.txt", "ids.txt has no record id"),
        (b"a/x\n", "ids.jsonl", r"Line 1 of .*ids.jsonl has no record id: 'a/x'\. Write a JSON"),
        (b'"a"\n{"id": "b"}\n', "ids.jsonl", "Line 2 of .* has no record id"),
        (b'""\n', "ids.jsonl", "has no record id"),
        (b'"\\ud800"\n', "ids.jsonl", "has no record id"),
        (b"[" * 100_000, "ids.jsonl", "has no record id"),
    ],
)
def test_malformed_files(content, name, message, write_ids):
    with pytest.raises(InputError, match=message):
        read_ids(write_ids(content, name))


def test_unknown_ids_are_an_error(write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", {f"{'ab'[n % 2]}/old{n}": n for n in range(8)}))
    append_to(write_corpus("new", {"a/new": 100}))
    root = tmp_path / "set"
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    ids = ["a/old0.jpg", *(f"none{n}" for n in range(7))]
    message = (
        "has no record with 7 ids of 8: 'none0', 'none1', 'none2', 'none3', 'none4' and 2 more. "
        "Nothing was removed. Correct the ids, or pass --missing-ok"
    )
    with pytest.raises(InputError, match=message):
        compact(root, ids)
    with pytest.raises(InputError, match=r"The set has 'b/old1.jpg', without the white space of"):
        compact(root, ["a/old0.jpg", "b/old1.jpg\r"])
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    compacted = compact(root, ids, missing_ok=True)
    assert compacted.removed == 1 and compacted.not_found == sorted(ids[1:])
    assert load_manifest(root).ledger.kept == 8
    # The same command, which may have been killed after its last step, has nothing left to do.
    again = compact(root, ids)
    assert not again.changed and again.not_found == sorted(ids)
    with pytest.raises(InputError, match="Nothing was removed"):
        compact(root, ids[:2])
