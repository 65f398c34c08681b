"""A set whose `fingerprints/` is in parts is appended to, compacted and repaired as any other.

Pieces, parts and ranges are lowered, so that a set of some records is a large one.
"""

from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pytest

from beam_jobs import bounds
from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from beam_jobs.staging import item_list
from beam_jobs.staging.item_list import hashes_in
from beam_jobs.staging.seen_items import KnownItems
from beam_jobs.staging.stored import StoredRecords
from beam_jobs.workspace import read_table
from shard_format import InputError, fingerprint_files, load_build, load_manifest, naming, verify
from shard_format.expected_files import FINGERPRINTS_KEY
from shard_format.fingerprint_files import files_in, part_file, parts_at, whole_file
from tests.beam_jobs.stages.merge.builds import FORCED
from tests.fixtures.damage import files_of

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(24)} | {"a/same": 0, "b/same": 5}
NEW = {f"{'ab'[n % 2]}/new{n}": n for n in range(18, 28)}  # some are duplicates of old ones
RANGES = 3
STORED = [part_file(naming.STORED_RECORDS, part, RANGES) for part in range(RANGES)]
ITEMS = [part_file(naming.READ_ITEMS, part, 4) for part in range(4)]


@pytest.fixture
def in_parts(monkeypatch):
    """Has files of more than 7 items or records be in parts."""

    def lower() -> None:
        monkeypatch.setattr(bounds, "LISTED_FILES", 6)
        monkeypatch.setattr(fingerprint_files, "PART_ITEMS", 7)
        merging = FORCED._replace(ranges=RANGES)
        monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: merging)

    return lower


@pytest.fixture
def corpus(write_corpus):
    return write_corpus("corpus", OLD)


@pytest.fixture
def parted(corpus, begin_set, in_parts, tmp_path):
    in_parts()
    begin_set(corpus, dedup="near")
    assert files_in(tmp_path / "set") == [*ITEMS, *STORED]
    return tmp_path / "set"


def stored(directory):
    places = parts_at(directory / naming.STORED_RECORDS)
    return pa.concat_tables(map(read_table, places)).sort_by("record_id")


@pytest.mark.parametrize("listed", ["at once", "in pieces"])
def test_parts_have_what_one_file_has(corpus, begin_set, in_parts, monkeypatch, tmp_path, listed):
    begin_set(corpus, "whole", dedup="near")
    in_parts()
    if listed == "at once":
        monkeypatch.setattr(bounds, "LISTED_FILES", 100)
    else:  # the workers of the parts write them all
        monkeypatch.setattr(item_list, "_join", None)
    begin_set(corpus, "set", dedup="near")
    whole, parted = tmp_path / "whole", tmp_path / "set"
    assert files_in(whole) == sorted(naming.FINGERPRINT_FILES)
    assert files_in(parted) == [*ITEMS, *STORED]
    assert load_manifest(parted).root_hash == load_manifest(whole).root_hash
    assert stored(parted) == stored(whole)
    hashes = hashes_in(whole / naming.READ_ITEMS)
    assert hashes_in(parted / naming.READ_ITEMS).tolist() == hashes.tolist()
    assert len(hashes) == len(OLD) and (stored(whole)["kept_id"].null_count < len(OLD))
    known = KnownItems([parted / naming.READ_ITEMS, parted / "missing.arrow"])
    assert (known.generation_of(hashes) == 0).all()
    assert (known.generation_of(hashes + 1) == -1).all()
    assert set(load_build(parted)[FINGERPRINTS_KEY]) == {*ITEMS, *STORED}
    assert verify(parted)[1] == []


def test_it_is_kept_up_as_one_without_parts(
    corpus, write_corpus, begin_set, append_to, in_parts, tmp_path
):
    states = []
    for name in ("whole", "set"):
        if name == "set":
            in_parts()
        shutil.rmtree(corpus)
        begin_set(write_corpus("corpus", OLD), name, dedup="near")
        write_corpus("corpus", NEW)
        grown = append_to(corpus, name)
        assert (grown.own.ledger.read, grown.own.ledger.duplicates) == (10, 6)
        assert append_to(corpus, name).already_built
        state = [load_manifest(tmp_path / name).root_hash]
        compact(tmp_path / name)
        assert append_to(corpus, name).already_built
        state.append(load_manifest(tmp_path / name).root_hash)
        compact(tmp_path / name, ["b/new21.jpg"])
        state.append(load_manifest(tmp_path / name).root_hash)
        state.append(stored(tmp_path / name)["record_id"].to_pylist())
        assert append_to(corpus, name).already_built
        assert verify(tmp_path / name)[1] == []
        states.append(state)
    assert states[0] == states[1]
    assert not set(STORED) & set(files_in(tmp_path / "set"))


_LOST = [STORED[:1], STORED, [naming.BUILD], [naming.BUILD, STORED[2]]]
# Each loss with the times of files as they were, or with others; the other one is a proof.
_LOSSES = [
    pytest.param(lost, touched, marks=() if number % 2 == touched else pytest.mark.proof)
    for number, lost in enumerate(_LOST)
    for touched in (False, True)
]


@pytest.mark.parametrize(("lost", "touched"), _LOSSES)
def test_stored_records_are_repaired(parted, corpus, tmp_path, lost, touched):
    shutil.copytree(parted, tmp_path / "whole")
    before = stored(parted)
    if touched:  # other units, so that records are in other parts
        for number, path in enumerate(sorted(corpus.rglob("*.jpg"))):
            os.utime(path, ns=(10**18 + number, 10**18 - number))
    for name in lost:
        (parted / name).unlink()
    done = repair(parted, [str(corpus)])
    assert (done.left, done.lost) == ([], []), done.reason
    assert verify(parted)[1] == []
    assert stored(parted) == before
    if not touched:
        assert files_of(parted) == files_of(tmp_path / "whole")


def test_a_list_of_items_is_repaired(parted, corpus, tmp_path):
    shutil.copytree(parted, tmp_path / "whole")
    (parted / ITEMS[1]).write_bytes(b"damaged")
    (damage,) = verify(parted)[1]
    assert damage.file == ITEMS[1]
    assert repair(parted).left == []
    assert files_of(parted) == files_of(tmp_path / "whole")
    (parted / ITEMS[3]).unlink()
    os.utime(corpus / "a" / "old0.jpg", ns=(0, 0))
    assert repair(parted).left == []
    assert verify(parted)[1] == []
    assert not any(whole_file(name) == naming.READ_ITEMS for name in files_in(parted))


def test_a_part_that_is_missing_is_an_error(parted, append_to, write_corpus):
    (parted / STORED[1]).unlink()
    with pytest.raises(InputError, match=r"records.arrow is missing. Run 'shardmill repair'"):
        StoredRecords(parted, ["perceptual_hash"], complete=True)
    assert parts_at(parted / naming.STORED_RECORDS) == []


def test_a_file_that_is_no_part_is_a_stranger(parted):
    for name in (part_file(naming.READ_ITEMS, 0, 9), naming.STORED_RECORDS):
        (parted / name).write_bytes(b"")
    assert {one.file for one in verify(parted)[1]} == {
        part_file(naming.READ_ITEMS, 0, 9),
        naming.STORED_RECORDS,
    }
    # Without build.json nobody knows.
    (parted / naming.BUILD).unlink()
    assert not any(one.is_extra for one in verify(parted)[1])


def test_parts_of_a_build_that_was_killed_are_deleted(parted, corpus, begin_set):
    for name in (naming.MANIFEST, naming.BUILD):
        (parted / name).unlink()
    for name in (part_file(naming.READ_ITEMS, 0, 9), naming.STORED_RECORDS):
        (parted / name).write_bytes(b"")
    (parted / naming.WORK_DIR).mkdir()
    begin_set(corpus, dedup="near")
    assert files_in(parted) == [*ITEMS, *STORED]
    assert verify(parted)[1] == []


def test_damage_on_the_way_is_an_error(corpus, begin_set, in_parts, monkeypatch, tmp_path):
    def damage(workspace, tasks=item_list.items_tasks):
        for path in workspace.pieces.glob("items-*.slices"):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        return tasks(workspace)

    in_parts()
    with monkeypatch.context() as patched:
        patched.setattr("beam_jobs.stages.commit.parts.items_tasks", damage)
        with pytest.raises(InputError, match="damaged"):
            begin_set(corpus)
    begin_set(corpus)
    assert verify(tmp_path / "set")[1] == []


def test_an_unreadable_file_leaves_no_list(corpus, begin_set, in_parts, monkeypatch, tmp_path):
    """The next append reads it again, and so all files."""
    in_parts()
    monkeypatch.setattr(item_list, "NOT_READ", frozenset({"corrupt"}))
    (corpus / "a" / "broken.jpg").write_bytes(b"\xff\xd8\xff no image")
    manifest = begin_set(corpus)
    assert manifest.ledger.quarantined == 1, manifest.ledger
    assert not files_in(tmp_path / "set")
    assert verify(tmp_path / "set")[1] == []
