"""Generations without a usable record: rejected, filtered or duplicates all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import simplejpeg

import reader
from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from shard_format import InputError, load_manifest, verify
from tests.fixtures.damage import files_of
from tests.fixtures.proofs import proof

PIECES = ("rejected", "records", "filtered", "copies", "more")


@pytest.fixture
def write_piece(tmp_path, write_corpus):
    """Writes a folder of images, or a file of documents, of which none or all are usable."""

    def images(name, what):
        if what in ("records", "copies", "more"):
            first = 100 if what == "more" else 0
            return write_corpus(name, {f"{'ab'[n % 2]}/{name}{n}": first + n for n in range(6)})
        folder = tmp_path / name / "a"
        folder.mkdir(parents=True)
        small = simplejpeg.encode_jpeg(np.full((2, 2, 3), len(name), np.uint8), 90)
        (folder / f"{name}.jpg").write_bytes(b"no image" if what == "rejected" else small)
        return tmp_path / name

    def documents(name, what):
        words = np.random.default_rng(what == "more").integers(0, 99, (8, 30))
        texts = [" ".join(f"w{word}" for word in row) for row in words]
        values = {"rejected": [[name]], "filtered": [name]}.get(what, texts)
        rows = [
            {"text": value, "g": f"g{n % 3}", "label": "ab"[n % 2]}
            for n, value in enumerate(values)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return tmp_path / f"{name}.jsonl"

    return {"image": images, "text": documents}


IMAGE = {"kind": "image", "min_side": 4, "resize": "shorter:8"}
TEXT = {
    "kind": "text",
    "text_column": "text",
    "label_column": "label",
    "clean": "length:min_words=5",
}


_CASES = {
    "near-images": {**IMAGE, "dedup": "near"},
    "conflicts": {**IMAGE, "conflicts": "drop", "balance": "oversample"},
    "groups": {**TEXT, "group_by": "g", "dedup": "near"},
    "packed": {**TEXT, "pack": 16, "train_tokenizer": "bpe:300"},
}


@pytest.mark.parametrize(
    ("first", "case"),
    [
        ("rejected", "near-images"),
        pytest.param("records", "near-images", marks=proof),
        ("filtered", "conflicts"),
        ("rejected", "groups"),
        ("filtered", "packed"),
    ],
)
def test_all_commands_work(first, case, write_piece, begin_set, append_to, tmp_path):
    options = _CASES[case]
    root, write = tmp_path / "set", write_piece[options["kind"]]
    begin_set(write("first", first), **options)
    kept, records = load_manifest(root).ledger.kept, 6 if options["kind"] == "image" else 8
    for number, piece in enumerate(PIECES):
        ledger = append_to(write(f"piece{number}", piece), **options).own.ledger
        is_new = piece == "more" or (piece == "records" and first != "records")
        assert ledger.kept == (records if is_new else 0)
        assert ledger.duplicates == (
            records if piece in ("records", "copies") and not is_new else 0
        )
        kept += ledger.kept
        assert verify(root)[1] == []
    assert load_manifest(root).ledger.kept == kept == 2 * records
    _check_readable(root)

    whole = {name: (root / name).read_bytes() for name in files_of(root)}
    names = ["generations/0001/manifest.json", "generations/0001/quarantine/part-00000.parquet"]
    names += ["tokenizer.json"] * ("pack" in options)
    for name in names:
        (root / name).unlink()
        assert repair(root).left == []
        assert {name: (root / name).read_bytes() for name in files_of(root)} == whole, name

    assert compact(root).manifest.ledger.kept == kept
    assert verify(root)[1] == []
    _check_readable(root)
    for piece in ("rejected", "records"):
        again = append_to(write(f"{piece}-again", piece), **options)
        assert again.own.ledger.kept == 0 and verify(root)[1] == []


def _check_readable(root):
    for split, info in load_manifest(root).splits.items():
        if info.records:
            assert len(reader.random_access(root, split)) == info.records


def test_nothing_usable_at_all(write_piece, begin_set, append_to, tmp_path):
    options = {**TEXT, "pack": 16, "train_tokenizer": "bpe:300"}
    write = write_piece["text"]
    begin_set(write("first", "rejected"), **options)
    append_to(write("second", "filtered"), **options)
    assert compact(tmp_path / "set").manifest.ledger.kept == 0
    assert verify(tmp_path / "set")[1] == []
    assert append_to(write("third", "records"), **options).own.ledger.kept == 8


@pytest.mark.parametrize("known", [True, False])
def test_a_lost_file_is_not_taken_for_no_records(
    known, write_piece, begin_set, append_to, tmp_path
):
    options = {**IMAGE, "dedup": "near"}
    begin_set(write_piece["image"]("first", "records"), **options, no_fingerprints=not known)
    (tmp_path / "set/fingerprints/records.arrow").unlink(missing_ok=True)
    message = "is missing. Run 'shardmill repair'" if known else "it was built before shard sets"
    with pytest.raises(InputError, match=message):
        append_to(write_piece["image"]("second", "more"), **options)
