"""What was removed from a set, or kept out from the start, never comes back into it."""

from __future__ import annotations

import hashlib
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_jobs import preprocess
from beam_jobs.generations.compact import compact
from beam_jobs.generations.replay import replay_generations
from beam_jobs.options import OPTIONS
from beam_jobs.quarantine import replay_options
from beam_jobs.repair import repair
from beam_jobs.replacement import FolderReplacement
from shard_format import DamageError, load_build, load_manifest, naming, verify
from shard_format.removed_records import id_digest, read_removed, removed_files
from tests.fixtures.generations import Killed

IMAGES = {f"{'ab'[n % 2]}/{n}": n for n in range(10)}


@pytest.fixture
def corpus(write_corpus):
    """Ten images and a damaged file."""
    folder = write_corpus("corpus", IMAGES)
    (folder / "a" / "bad.jpg").write_bytes(b"no image but bytes")
    return folder


@pytest.fixture
def write_ids(tmp_path):
    def write(*ids, name="ids.txt"):
        (tmp_path / name).write_text("".join(f"{one}\n" for one in ids))
        return str(tmp_path / name)

    return write


def overwrite(source, out, **options):
    values = {"no_report": True, "split": "train=0.6,test=0.4", "workers": 1, "overwrite": True}
    kind = OPTIONS[options.pop("kind", "image")]
    return preprocess(kind(sources=(str(source),), out=str(out), **(values | options))).manifest


def touch(folder):
    for path in folder.rglob("*.*"):
        os.utime(path, ns=(10**18, 10**18))


def closes(ledger):
    return ledger.read == (
        ledger.kept + ledger.duplicates + ledger.filtered + ledger.quarantined + ledger.excluded
    )


REMOVED = ["a/0.jpg", "b/3.jpg", "a/bad.jpg"]


@pytest.fixture
def lost(corpus, begin_set, tmp_path):
    """A set that has lost two images and the damaged file."""
    begin_set(corpus)
    compact(tmp_path / "set", REMOVED)
    return tmp_path / "set"


def test_a_removal_is_counted_and_names_nobody(lost):
    manifest = load_manifest(lost)
    ledger = manifest.ledger
    assert (ledger.read, ledger.kept, ledger.excluded, ledger.quarantined) == (11, 8, 3, 0)
    data = (lost / naming.REMOVED).read_text()
    digests = [hashlib.blake2b(one.encode(), digest_size=16).hexdigest() for one in REMOVED]
    assert {line for line in data.splitlines() if line.startswith("id ")} == {
        f"id {digest}" for digest in digests
    }
    assert len([line for line in data.splitlines() if line.startswith("content ")]) == 2
    for path in lost.rglob("*.*"):
        assert not [one for one in REMOVED if one.encode() in path.read_bytes()], path


def test_an_append_does_not_bring_them_back(lost, corpus, append_to, records_of):
    touch(corpus)
    own = append_to(corpus).own
    assert (own.ledger.read, own.ledger.excluded, own.ledger.kept) == (11, 3, 0)
    assert own.ledger.quarantined == 0 and removed_files(load_manifest(lost)) == [naming.REMOVED]
    assert not set(REMOVED) & records_of().keys()
    assert verify(lost)[1] == []


def test_an_append_of_the_same_content_does_not(lost, write_corpus, append_to, records_of):
    own = append_to(write_corpus("more", {"a/other": 0, "b/new": 77})).own
    assert (own.ledger.kept, own.ledger.excluded) == (1, 1)
    assert "a/other.jpg" not in records_of()
    # By its id it is known from now on: with other options its content would have another hash.
    lists = removed_files(load_manifest(lost))
    assert lists == [f"generations/0001/{naming.REMOVED}", naming.REMOVED]
    assert read_removed(lost, load_manifest(lost)).has_id("a/other.jpg")
    merged = compact(lost).manifest
    assert removed_files(merged) == [naming.REMOVED] and merged.ledger.excluded == 4
    assert read_removed(lost, merged).has_id("a/other.jpg")


@pytest.mark.parametrize("options", [{}, {"resize": "shorter:6"}])
def test_a_build_in_its_place_does_not(lost, corpus, options):
    for _ in range(2):
        manifest = overwrite(corpus, lost, **options)
        assert (manifest.ledger.excluded, manifest.ledger.kept) == (3, 8)
        assert manifest.ledger.quarantined == 0 and verify(lost)[1] == []
        known = read_removed(lost, manifest)
        assert {id_digest(one) for one in REMOVED} == known.ids
        # Those of the stored bytes, before and after the change of options.
        assert len(known.contents) == (4 if options else 2)
    assert any("3 records kept out" in note for note in load_build(lost)["notes"])


def test_a_build_elsewhere_does(lost, corpus, begin_set):
    assert begin_set(corpus, "elsewhere").ledger.kept == 10


def test_a_replay_does_not(lost, corpus, tmp_path):
    options = replay_options(lost, None, (), {"min_side": 2})
    replayed = preprocess(options.__class__(**{**vars(options), "out": str(tmp_path / "new")}))
    assert replayed.manifest.ledger.excluded == 3
    compact(lost, ["b/1.jpg"])  # more, and then the same replay
    options = replay_options(lost, None, (), {"min_side": 2})
    replayed = preprocess(options.__class__(**{**vars(options), "out": str(tmp_path / "new")}))
    assert replayed.manifest.ledger.excluded == 4
    assert (
        read_removed(tmp_path / "new", replayed.manifest).ids
        == read_removed(lost, load_manifest(lost)).ids
    )


def test_a_list_that_is_lost_stops_what_would_bring_them_back(lost, corpus, append_to):
    (lost / naming.REMOVED).unlink()
    touch(corpus)
    for attempt in (
        lambda: append_to(corpus),
        lambda: overwrite(corpus, lost, resize="shorter:6"),
        lambda: compact(lost, ["b/1.jpg"]),
        lambda: replay_options(lost, None, (), {}),
    ):
        with pytest.raises(DamageError, match=r"removed\.txt, the list of records that were"):
            attempt()
    assert load_manifest(lost).ledger.kept == 8


LISTS = [naming.REMOVED, naming.REMOVED_COPY]


@pytest.mark.parametrize("data", [None, b"id 00000000000000000000000000000000\n"])
@pytest.mark.parametrize("damaged", [LISTS[:1], LISTS[1:], LISTS])
def test_the_list_is_repaired(lost, corpus, data, damaged):
    expected = (lost / naming.REMOVED).read_bytes()
    for name in damaged:
        (lost / name).unlink()
        if data is not None:
            (lost / name).write_bytes(data)
    if damaged != LISTS:  # the other one is enough
        shutil.rmtree(corpus)
    done = repair(lost)
    assert (done.left, sorted(done.repaired)) == ([], sorted(damaged)), done.reason
    assert {(lost / name).read_bytes() for name in LISTS} == {expected}


def test_ids_are_kept_out_from_the_start(corpus, begin_set, lost, write_ids, tmp_path):
    """The set is that from which they were removed."""
    manifest = begin_set(corpus, "other", exclude_ids=write_ids(*REMOVED))
    assert manifest.root_hash == load_manifest(lost).root_hash
    expected = [file.read_bytes() for file in sorted((tmp_path / "other/index").glob("*"))]
    for name in (naming.index_file("train"), naming.MANIFEST):
        (tmp_path / "other" / name).unlink()
        write_ids("b/1.jpg")  # the file has other ids now
        assert repair(tmp_path / "other").left == []
    assert [file.read_bytes() for file in sorted((tmp_path / "other/index").glob("*"))] == expected


def test_lists_of_generations_are_joined(
    lost, corpus, write_corpus, append_to, write_ids, tmp_path, records_of
):
    more = write_corpus("more", {"a/first": 50, "b/second": 51, "b/0": 0})
    own = append_to(more, exclude_ids=write_ids("a/first.jpg", "b/1.jpg")).own
    assert (own.ledger.kept, own.ledger.excluded) == (1, 2)
    manifest = load_manifest(lost)
    out = set(map(id_digest, [*REMOVED, "a/first.jpg", "b/0.jpg", "b/1.jpg"]))
    assert read_removed(lost, manifest).ids == out
    assert "b/1.jpg" in records_of()  # what is in the set is for `compact --remove`
    expected = {name: (lost / name).read_bytes() for name in removed_files(manifest)}
    for name in expected:
        (lost / name).write_bytes(b"")
    done = repair(lost)
    assert (done.left, sorted(done.repaired)) == ([], sorted(expected)), done.reason
    assert {name: (lost / name).read_bytes() for name in expected} == expected

    (corpus / "b" / "late.jpg").write_bytes((corpus / "b" / "1.jpg").read_bytes())
    replayed = replay_generations(lost, changes={"min_side": 2})
    assert read_removed(lost, replayed).ids >= out and replayed.newest == 1
    assert not {*REMOVED, "a/first.jpg", "b/0.jpg"} & records_of().keys()
    manifest = overwrite(corpus, lost)
    assert manifest.generations == () and read_removed(lost, manifest).ids >= out
    assert not {*REMOVED, "b/1.jpg"} & records_of().keys()


def test_a_kill_brings_nothing_back(lost, corpus, monkeypatch, records_of):
    """The new set was whole when its build was killed; then more was removed from the old one."""
    with monkeypatch.context() as patch:
        patch.setattr(FolderReplacement, "finish", lambda replacement: die())
        with pytest.raises(Killed):
            overwrite(corpus, lost, resize="shorter:6")
    assert load_manifest(lost.with_name("set.new")).ledger.kept == 8
    compact(lost, ["b/5.jpg"])
    again = overwrite(corpus, lost, resize="shorter:6")
    assert (again.ledger.excluded, again.ledger.kept) == (4, 7)
    assert not {*REMOVED, "b/5.jpg"} & records_of().keys() and verify(lost)[1] == []


def die():
    raise Killed


def test_files_that_were_lost_are_built_without_them(corpus, tmp_path, write_ids, records_of):
    """The same command, which the list of the set outlives, with another file of ids."""
    out = tmp_path / "set"
    overwrite(corpus, out, exclude_ids=write_ids("a/0.jpg", "b/1.jpg"))
    expected = overwrite(corpus, out).root_hash  # without the option
    next(out.glob("*tfrecord*")).unlink()
    assert overwrite(corpus, out, overwrite=False).root_hash == expected
    assert not {"a/0.jpg", "b/1.jpg"} & records_of().keys()


def test_documents_with_other_cleaning(tmp_path, records_of):
    texts = tmp_path / "texts.jsonl"
    lines = [
        f'{{"text": "Document {number} has  some words.", "id": {number}}}' for number in range(9)
    ]
    texts.write_text("\n".join(lines))
    job = {"kind": "text", "no_labels": True}
    overwrite(texts, tmp_path / "set", **job)
    gone = sorted(records_of())[:2]
    compact(tmp_path / "set", gone)
    os.utime(texts, ns=(10**18, 10**18))
    manifest = overwrite(texts, tmp_path / "set", clean="nfc", **job)
    assert manifest.ledger.excluded == 2 and not set(gone) & records_of().keys()


def test_all_records_may_be_kept_out(corpus, begin_set, append_to, write_ids, tmp_path):
    everything = write_ids(*(f"{name}.jpg" for name in IMAGES), "a/bad.jpg")
    ledger = begin_set(corpus, exclude_ids=everything).ledger
    assert (ledger.read, ledger.excluded) == (11, 11) and verify(tmp_path / "set")[1] == []
    assert load_manifest(tmp_path / "set").splits["train"].records == 0


@pytest.mark.parametrize("dedup", ["exact", "near", "off", "conflicts"])
def test_rows_of_duplicates_are_as_many_as_are_counted(write_corpus, begin_set, tmp_path, dedup):
    options = {"conflicts": "drop"} if dedup == "conflicts" else {"dedup": dedup}
    source = write_corpus("corpus", IMAGES | {"a/x": 3, "b/y": 3, "a/z": 4, "b/u": 5, "a/v": 5})
    begin_set(source, **options)
    for ids in (["a/x.jpg"], ["a/z.jpg"], ["b/y.jpg"] if dedup == "off" else ["a/v.jpg"]):
        ledger = compact(tmp_path / "set", ids).manifest.ledger
        file = tmp_path / "set" / naming.DUPLICATES
        rows = pq.read_table(file).to_pylist() if file.exists() else []
        conflicts = ledger.reasons.get("label-conflict", 0)
        assert ledger.duplicates + conflicts == sum(row["dropped"] for row in rows)
        assert closes(ledger) and ledger.read == 15


def test_ids_that_match_nothing_are_a_note(corpus, begin_set, write_ids, tmp_path):
    begin_set(corpus, exclude_ids=write_ids("a/0.jpg", "none", "nobody"))
    notes = load_build(tmp_path / "set")["notes"]
    assert any("2 ids of --exclude-ids found in no record" in note for note in notes)
    assert any("1 record kept out" in note for note in notes)


def test_a_file_with_other_ids_is_another_build(corpus, tmp_path, write_ids):
    out = tmp_path / "set"
    options = {"exclude_ids": write_ids("a/0.jpg"), "overwrite": False}
    first = overwrite(corpus, out, **options)
    assert overwrite(corpus, out, **options).root_hash == first.root_hash
    write_ids("a/0.jpg", "b/1.jpg")
    with pytest.raises(Exception, match=r"--exclude-ids: .*ids\.txt had other ids then"):
        overwrite(corpus, out, **options)
    assert overwrite(corpus, out, exclude_ids=options["exclude_ids"]).ledger.excluded == 2


def test_a_removed_record_wins_no_cluster(write_corpus, begin_set, append_to, tmp_path, records_of):
    images = IMAGES | {"a/copy": 3, "b/3near": 3}
    begin_set(write_corpus("corpus", images), dedup="near")
    rows = pq.read_table(tmp_path / "set" / naming.DUPLICATES).to_pylist()
    assert {(row["record_id"], row["kept_id"]) for row in rows} == {
        ("b/3.jpg", "a/copy.jpg"),
        ("b/3near.jpg", "a/copy.jpg"),
    }
    before = load_manifest(tmp_path / "set").ledger
    assert before.duplicates == 2
    # Content that another record keeps is not lost with one of its names.
    compact(tmp_path / "set", ["b/3.jpg"])
    assert read_removed(tmp_path / "set", load_manifest(tmp_path / "set")).contents == frozenset()
    manifest = overwrite(tmp_path / "corpus", tmp_path / "set", dedup="near")
    assert (manifest.ledger.kept, manifest.ledger.excluded) == (10, 1)
    # With the last one all copies go, and their rows, and are counted.
    compacted = compact(tmp_path / "set", ["a/copy.jpg"])
    ledger = compacted.manifest.ledger
    assert (ledger.duplicates, ledger.excluded, compacted.removed) == (0, 3, 1) and closes(ledger)
    assert not (tmp_path / "set" / naming.DUPLICATES).exists()
    manifest = overwrite(tmp_path / "corpus", tmp_path / "set", resize="shorter:6")
    assert not {"b/3.jpg", "b/3near.jpg", "a/copy.jpg"} & records_of().keys()


def test_a_near_duplicate_of_an_excluded_record_is_kept(tmp_path, write_ids, records_of):
    texts = tmp_path / "texts"
    texts.mkdir()
    words = [f"w{number}" for number in np.random.default_rng(0).integers(0, 999, 200)]
    (texts / "one.txt").write_text(" ".join(words))
    (texts / "two.txt").write_text(" ".join([*words[:-1], "other"]))
    for number in range(6):
        (texts / f"{number}.txt").write_text(f"quite another text of number {number} " * 9)
    job = {"kind": "text", "dedup": "near", "no_labels": True}
    plain = overwrite(texts, tmp_path / "set", **job)
    assert "two.txt" not in records_of() and "one.txt" in records_of()
    manifest = overwrite(texts, tmp_path / "set", exclude_ids=write_ids("one.txt"), **job)
    assert "one.txt" not in records_of() and "two.txt" in records_of()
    assert (
        manifest.ledger.excluded == 1 and plain.ledger.duplicates - 1 == manifest.ledger.duplicates
    )


def test_equal_fingerprints_do_not_suffice_where_pixels_decide(tmp_path, begin_set, append_to):
    """Of JPEG files that are kept, fingerprints are those of their eighths."""
    import simplejpeg

    def image(seed, name):
        pixels = np.full((32, 32, 3), 10 * seed, np.uint8)
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(simplejpeg.encode_jpeg(pixels, 90))

    for number in range(6):
        image(number, f"old/a/{number}.jpg")
    begin_set(tmp_path / "old", quality="keep", no_labels=True)
    compact(tmp_path / "set", ["a/3.jpg"])
    (content,) = read_removed(tmp_path / "set", load_manifest(tmp_path / "set")).contents
    assert len(content) == 64
    image(3, "new/a/same.jpg")
    image(7, "new/a/another.jpg")
    own = append_to(tmp_path / "new").own
    assert (own.ledger.excluded, own.ledger.kept) == (1, 1)


@pytest.mark.parametrize("options", [{"dedup": "off"}, {"duplicates": "keep"}])
@pytest.mark.parametrize("names", [("b/3.jpg", "copy"), ("a/copy.jpg", "3")])
def test_a_set_of_equal_records_keeps_those_that_nobody_named(
    write_corpus, begin_set, tmp_path, options, names
):
    source = write_corpus("corpus", IMAGES | {"a/copy": 3})
    begin_set(source, **options)
    first, second = names
    compact(tmp_path / "set", [first])
    assert len(read_removed(tmp_path / "set", load_manifest(tmp_path / "set")).ids) == 1
    manifest = overwrite(source, tmp_path / "set", **options)
    assert (manifest.ledger.kept, manifest.ledger.excluded) == (10, 1)
    notes = load_build(tmp_path / "set")["notes"]
    assert any("1 record of the set with the content of one" in note for note in notes)
    (second,) = source.rglob(f"{second}.jpg")
    compact(tmp_path / "set", [second.relative_to(source).as_posix()])
    shutil.move(second, source / "a" / "renamed.jpg")
    assert overwrite(source, tmp_path / "set", **options).ledger.kept == 9


def test_a_receipt(lost, corpus, append_to):
    (receipt,) = load_build(lost)["removals"]
    assert (receipt["asked"], receipt["found"]) == (3, 3)
    removed = receipt["removed"]
    assert (removed["records"], removed["kept"], removed["rejected"]) == (3, 2, 1)
    assert naming.quarantine_file(0) in receipt["files"]
    assert receipt["root_hash_after"] == load_manifest(lost).root_hash
    again = compact(lost, REMOVED)
    assert not again.changed and again.receipt == receipt
    more = compact(lost, ["b/1.jpg"]).receipt
    assert load_build(lost)["removals"] == [receipt, more]
    assert more["root_hash_before"] == receipt["root_hash_after"]
    assert any("tfrecord" in name for name in more["files"])


def test_without_a_rejected_record_no_folder_is_left(lost):
    assert verify(lost)[1] == [] and not (lost / naming.QUARANTINE_DIR).exists()


def test_a_removal_that_was_done_before_is_no_mistake(lost):
    compact(lost, ["b/1.jpg"])
    assert not compact(lost, REMOVED[:2]).changed
