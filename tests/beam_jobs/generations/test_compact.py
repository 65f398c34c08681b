"""compact: one set of all generations, at any moment a whole one, without what was removed."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs.generations.compact import compact
from beam_jobs.generations.log import generations
from shard_format import decode_example, load_build, load_manifest, open_index, read_records, verify
from tests.fixtures.generations import Killed, die_after

# (class, seed of the image, piece): equal seeds are duplicates.
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 2)), min_size=6, max_size=14
)


def _pieces(records):
    """By piece, in order: the images of its files; a class of the first piece is in every set."""
    pieces = {0: {"a/0": 1000, "b/0": 1001}}
    for number, (label, seed, piece) in enumerate(records, start=1):
        pieces.setdefault(piece, {})[f"{label}/{number}"] = seed
    return [pieces[piece] for piece in sorted(pieces)]


def _check_cut(records, begin_set, append_to, write_corpus, records_of, tmp_path, name):
    pieces = _pieces(records)
    everything = {path: seed for piece in pieces for path, seed in piece.items()}
    whole = begin_set(write_corpus(f"{name}-all", everything), f"{name}-whole", num_shards=2)
    begin_set(write_corpus(f"{name}-0", pieces[0]), name, num_shards=2)
    for number, piece in enumerate(pieces[1:], start=1):
        append_to(write_corpus(f"{name}-{number}", piece), name)
    piece_of = {f"{path}.jpg": at for at, piece in enumerate(pieces) for path in piece}
    seed_of = {f"{path}.jpg": seed for path, seed in everything.items()}
    clusters: dict[int, list[str]] = {}
    for path, seed in seed_of.items():
        clusters.setdefault(seed, []).append(path)
    kept = {min(paths, key=lambda path: (piece_of[path], path)) for paths in clusters.values()}

    splits = {path: split for path, (split, _) in records_of(name).items()}
    compacted = compact(tmp_path / name)
    assert compacted.merged == len(pieces) and verify(tmp_path / name)[1] == []
    merged, scratch = records_of(name), records_of(f"{name}-whole")
    assert merged.keys() == kept
    assert {path: split for path, (split, _) in merged.items()} == splits
    for path in merged.keys() & scratch.keys():
        assert merged[path] == scratch[path]
    if kept == scratch.keys():  # the usual rule keeps the same records: the same set
        assert compacted.manifest.root_hash == whole.root_hash
    shards = [[one.records for one in split.shards] for split in compacted.manifest.splits.values()]
    assert all(max(counts) - min(counts) <= 1 for counts in shards if counts)
    keys = open_index(tmp_path / name / compacted.manifest.index_file("train"))["key"].to_pylist()
    assert keys == sorted(keys)


def _any_cut(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@_any_cut(3)
@given(records=RECORDS)
def test_any_cut_of_a_corpus(records, begin_set, append_to, write_corpus, records_of, tmp_path):
    name = f"set{len(list(tmp_path.iterdir()))}"
    _check_cut(records, begin_set, append_to, write_corpus, records_of, tmp_path, name)


@pytest.mark.proof
@_any_cut(60)
@given(records=RECORDS)
def test_many_cuts(records, begin_set, append_to, write_corpus, records_of, tmp_path):
    name = f"set{len(list(tmp_path.iterdir()))}"
    _check_cut(records, begin_set, append_to, write_corpus, records_of, tmp_path, name)


OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(10)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(4)} | {"b/copy": 1, "a/twice": 102}


@pytest.fixture
def two_generations(write_corpus, begin_set, append_to):
    """Builds a set of two generations, with damaged files in both."""
    old, new = write_corpus("old", OLD), write_corpus("new", NEW)
    for folder in (old, new):
        (folder / "a" / f"bad-{folder.name}.jpg").write_bytes(b"no image but " + b"bytes" * 9)

    def build(out, **options):
        begin_set(old, out, num_shards=2, **options)
        append_to(new, out)

    return build


def test_a_crash_at_any_moment(two_generations, tmp_path, monkeypatch, records_of):
    two_generations("whole", conflicts="drop")
    ids = {"a/old4.jpg", "a/bad-new.jpg", "unknown"}
    expected = compact(tmp_path / "whole", ids, missing_ok=True)
    assert expected.removed == 2 and expected.not_found == ["unknown"]
    files = {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*")}
    crashes = 0
    while True:
        out = tmp_path / f"crash{crashes}"
        two_generations(out.name, conflicts="drop")
        with monkeypatch.context() as patch:
            die_after(crashes, patch)
            try:
                compact(out, ids, missing_ok=True)
                break
            except Killed:
                pass
        manifest = load_manifest(out)
        assert manifest.ledger.kept in (14, 13)
        assert [damage for damage in verify(out)[1] if "not part" not in damage.problem] == []
        assert len(records_of(out.name)) == manifest.ledger.kept
        compact(out, ids, missing_ok=True)
        assert load_manifest(out).root_hash == expected.manifest.root_hash
        assert {path.relative_to(out) for path in out.rglob("*")} == files
        crashes += 19
    assert crashes > 40


def test_removed_records_are_in_no_byte(two_generations, tmp_path, records_of, write_corpus):
    """The payload and the id of a kept record, of one with duplicates, and of a rejected one."""
    from beam_jobs.report import write_report

    two_generations("set", conflicts="drop")
    root = tmp_path / "set"
    write_report(root)
    ids = {"b/old1.jpg", "a/old2.jpg", "a/new2.jpg", "a/bad-old.jpg"}
    frames = records_of()
    secrets = [name.encode() for name in ids] + [b"bytes" * 9]
    secrets += [frames[name][1][40:-8] for name in ids & frames.keys()]
    fingerprints = [
        row["fingerprint"]
        for split in ("train", "test")
        for row in open_index(root / load_manifest(root).index_file(split)).to_pylist()
        if row["record_id"] in ids
    ]
    (root / "index" / "stale.idx").write_bytes(b"offsets")

    def holders(secret):
        return [path for path in root.rglob("*") if path.is_file() and secret in path.read_bytes()]

    assert all(holders(secret) for secret in [*secrets, *fingerprints])
    # The damaged file of the other generation has the same bytes.
    compacted = compact(root, ids | {"a/bad-new.jpg"})
    assert compacted.removed == 5 and compacted.not_found == []
    for secret in [*secrets, *fingerprints]:
        assert holders(secret) == []
    assert (root / "report.html").exists() and not (root / "index" / "stale.idx").exists()
    ledger = compacted.manifest.ledger
    # Both duplicates were those of removed records, and have no row any more.
    assert (ledger.read, ledger.kept, ledger.duplicates, ledger.quarantined) == (18, 11, 0, 0)
    assert ledger.excluded == 7 and not (root / "duplicates.parquet").exists()
    assert records_of().keys() == frames.keys() - ids


def test_a_copied_record_is_removed_with_its_copies(write_corpus, begin_set, tmp_path, records_of):
    images = {f"a/{n}": n for n in range(8)} | {"b/x": 50, "b/y": 51}
    begin_set(write_corpus("corpus", images), split="train=1", balance="oversample")
    assert load_manifest(tmp_path / "set").ledger.repeated == 6
    compacted = compact(tmp_path / "set", ["b/x.jpg"])
    # The other record of its class has the copies that it had.
    assert compacted.manifest.ledger.kept == 9 and compacted.manifest.ledger.repeated == 3
    assert compacted.manifest.splits["train"].statistics["class_counts"] == {"a": 8, "b": 4}
    assert verify(tmp_path / "set")[1] == []


def test_copies_stay_those_of_their_generations(write_corpus, begin_set, append_to, tmp_path):
    begin_set(
        write_corpus("0", {f"a/{n}": n for n in range(14)} | {f"b/{n}": 100 + n for n in range(5)}),
        balance="oversample",
        num_shards=2,
    )
    append_to(write_corpus("1", {f"b/new{n}": 200 + n for n in range(9)} | {"a/new": 300}))
    before = load_manifest(tmp_path / "set")
    after = compact(tmp_path / "set").manifest
    assert after.ledger == before.ledger and after.ledger.repeated > 0
    for name, split in before.splits.items():
        keys = open_index(tmp_path / "set" / after.index_file(name))["key"].to_pylist()
        assert len(keys) == split.records and keys == sorted(keys)
    assert verify(tmp_path / "set")[1] == []


def test_what_was_appended_is_known_after_it(two_generations, append_to, tmp_path):
    two_generations("set")
    builds = [load_build(tmp_path / "set"), load_build(tmp_path / "set/generations/0001")]
    compact(tmp_path / "set")
    assert load_build(tmp_path / "set")["compacted"] == [build["build_id"] for build in builds]
    assert append_to(tmp_path / "new").already_built
    assert load_manifest(tmp_path / "set").generations == ()


def test_append_after_compact(two_generations, append_to, write_corpus, tmp_path):
    two_generations("set", conflicts="drop")
    compact(tmp_path / "set")
    more = {"a/more": 300, "b/again": 100}
    report = append_to(write_corpus("more", more))
    assert report.number == 1 and report.own.ledger.duplicates == 1
    assert verify(tmp_path / "set")[1] == []


def test_duplicates_and_quarantine_of_all_generations(two_generations, tmp_path):
    two_generations("set")
    before = load_manifest(tmp_path / "set").ledger
    manifest = compact(tmp_path / "set").manifest
    assert manifest.ledger == before
    rows = pq.read_table(tmp_path / "set/duplicates.parquet").to_pylist()
    clusters = {(row["record_id"], row["kept_id"], row["split"] is None) for row in rows}
    assert clusters == {("b/copy.jpg", "b/old1.jpg", False), ("a/twice.jpg", "a/new2.jpg", False)}
    rejects = pq.read_table(tmp_path / "set/quarantine/part-00000.parquet")
    assert rejects["record_id"].to_pylist() == ["a/bad-old.jpg", "a/bad-new.jpg"]


@pytest.fixture
def write_texts(tmp_path):
    """Writes documents of random words and lengths; equal seeds are equal documents."""

    def write(name, seeds):
        (tmp_path / name).mkdir()
        for seed in seeds:
            words = np.random.default_rng(seed).integers(0, 99, 1 + seed * 7 % 40)
            (tmp_path / name / f"{seed}.txt").write_text(" ".join(f"w{word}" for word in words))
        return tmp_path / name

    return write


def _documents(directory):
    """The tokens of every document, from all its parts."""
    manifest, parts = load_manifest(directory), {}
    for name, split in manifest.splits.items():
        index = open_index(directory / manifest.index_file(name)).to_pylist()
        records = [one for shard in split.shards for _, one in read_records(directory / shard.file)]
        for row, record in zip(index, records, strict=True):
            example = {key: np.array(value) for key, value in decode_example(record).items()}
            assert example["id"] == [row["record_id"].encode()]
            assert (example["segments"] == 0).sum() == row["padding"]
            for number, (document, start) in enumerate(
                zip(row["documents"], row["starts"], strict=True), start=1
            ):
                tokens = example["tokens"][example["segments"] == number].tolist()
                parts.setdefault(document, {})[start] = tokens
    return {
        name: [token for start in sorted(own) for token in own[start]]
        for name, own in parts.items()
    }


@pytest.mark.parametrize("packing", ["concat", "best-fit"])
def test_packed_documents(packing, tmp_path, begin_set, append_to, write_texts):
    """Sequences are merged as they are; a document that is removed is in none of them."""
    options = {"kind": "text", "no_labels": True, "pack": 16, "packing": packing, "num_shards": 2}
    begin_set(write_texts("one", range(1, 20)), train_tokenizer="bpe:300", **options)
    for name, seeds in (("two", range(18, 30)), ("three", range(30, 36))):
        append_to(write_texts(name, seeds), kind="text", no_labels=True)
    root = tmp_path / "set"
    documents, before = _documents(root), load_manifest(root)
    compacted = compact(root).manifest
    assert _documents(root) == documents and len(documents) == 35
    assert compacted.ledger == before.ledger and verify(root)[1] == []
    assert {split: one.records for split, one in compacted.splits.items()} == {
        split: one.records for split, one in before.splits.items()
    }
    # Also in the middle of a sequence, and all documents of one.
    gone = [f"{seed}.txt" for seed in range(3, 33, 4)]
    cut = compact(root, gone)
    assert cut.not_found == [] and cut.manifest.ledger.kept == 35 - len(gone)
    left = {name: tokens for name, tokens in documents.items() if name not in gone}
    assert _documents(root) == left and verify(root)[1] == []
    packing = cut.manifest.splits["train"].statistics["packing"]
    assert packing["sequences"] == cut.manifest.splits["train"].records
    assert packing["padding"] + packing["tokens"] == 16 * packing["sequences"]
    contents = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    assert not any(b"11.txt" in content for content in contents)


def test_the_log(two_generations, tmp_path):
    two_generations("set")
    history = generations(tmp_path / "set")
    assert [one.number for one in history] == [0, 1]
    assert [one.ledger.kept for one in history] == [10, 4]
    assert [one.sources for one in history] == [[str(tmp_path / "old")], [str(tmp_path / "new")]]
    for one in history:
        assert load_manifest(tmp_path / "set", one.number).root_hash == one.view
        assert json.loads(json.dumps(one.as_json()))["ledger"] == dataclasses.asdict(one.ledger)
    compact(tmp_path / "set")
    (one,) = generations(tmp_path / "set")
    assert one.sources == [str(tmp_path / "old"), str(tmp_path / "new")]
