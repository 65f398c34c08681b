"""Repair of sets with several generations: the same bytes again, of whichever generation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from shard_format import DamageError, load_manifest, naming, verify_set
from tests.fixtures.damage import files_of
from tests.fixtures.proofs import each_value_once

# A file of each kind, and the generation that its repair must be planned against.
KINDS = (
    "generations/0002/images-train.tfrecord-00000-of-00001",
    "generations/0001/manifest.json",
    "generations/0001/view/index/train.arrow",
    "generations/0002/view.json",
    "generations/0002/fingerprints/records.arrow",
    "generations/0002/fingerprints/items.arrow",
    "generations/0001/croissant.json",
    "report.html",
)


@pytest.fixture
def grown(write_corpus, begin_set, append_to, tmp_path):
    """A set of three generations with near duplicates in `set`; a copy of it in `whole`."""
    for name, seeds in (("one", range(12)), ("two", range(9, 18)), ("three", range(16, 24))):
        write_corpus(name, {f"c{seed % 2}/{name}{seed}": seed for seed in seeds})
    (tmp_path / "two" / "c0" / "broken.jpg").write_bytes(b"no image")
    begin_set(tmp_path / "one", dedup="near")
    append_to(tmp_path / "two")
    append_to(tmp_path / "three", no_report=False)
    shutil.copytree(tmp_path / "set", tmp_path / "whole")
    return tmp_path / "set"


def damage(place: Path) -> None:
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 16
    place.write_bytes(data)


def damaged(directory: Path) -> set[str]:
    try:
        verified = verify_set(directory)
        return {one.file for one in verified.damages + verified.minor}
    except DamageError:
        return {naming.MANIFEST}


def check_same(directory: Path, whole: Path) -> None:
    assert verify_set(directory).damages == []
    assert files_of(directory) == files_of(whole)
    assert load_manifest(directory).root_hash == load_manifest(whole).root_hash
    for name in files_of(whole):
        if not name.endswith(naming.BUILD):  # it has times
            assert (directory / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_file_of_each_kind_is_repaired(grown):
    whole = grown.with_name("whole")
    for name in KINDS:
        damage(grown / name)
        assert name in damaged(grown), name
        done = repair(grown)
        assert (done.left, done.lost, done.reason) == ([], [], ""), name
        assert done.repaired == [name], name
        check_same(grown, whole)


def test_every_file_is_checked(grown):
    """No file of a set is left out but those that `verify --help` names."""
    for name in files_of(grown):
        whole = (grown / name).read_bytes()
        damage(grown / name)
        assert name in damaged(grown), name
        (grown / name).write_bytes(whole)
    assert damaged(grown) == set()


@pytest.mark.proof
def test_every_file_is_repaired(grown):
    whole = grown.with_name("whole")
    for name in files_of(whole):
        for spoil in (damage, Path.unlink):
            spoil(grown / name)
            assert name in damaged(grown), name
            done = repair(grown)
            # Without any build.json of the generation nothing says where its sources are.
            if name.endswith(naming.BUILD) and done.left:
                shutil.copy(whole / name, grown / name)
                continue
            if name == naming.CARD and spoil is damage:  # an edited page is never replaced
                shutil.copy(whole / name, grown / name)
            assert (done.left, done.lost) == ([], []), f"{name}: {done.reason}"
            check_same(grown, whole)


def test_all_generations_at_once(grown):
    shards = [name for name in files_of(grown) if naming.parse_shard_file(Path(name).name)]
    one, two, *others = shards
    first, second = (grown / one).read_bytes(), (grown / two).read_bytes()
    (grown / one).write_bytes(second)
    (grown / two).write_bytes(first)
    for name in others:
        damage(grown / name)
    (grown / naming.MANIFEST).unlink()
    damage(grown / "generations/0002/view.json")
    done = repair(grown)
    assert (done.left, done.lost) == ([], []), done.reason
    check_same(grown, grown.with_name("whole"))


def test_records_without_a_source_are_named(grown, tmp_path):
    shutil.rmtree(tmp_path / "two")
    name = "generations/0001/images-train.tfrecord-00000-of-00001"
    damage(grown / name)
    damage(grown / "images-train.tfrecord-00000-of-00001")
    done = repair(grown)
    assert {one.file for one in done.lost} == {name}
    assert done.repaired == ["images-train.tfrecord-00000-of-00001"]
    assert all("two" in one.record_id for one in done.lost)
    # What has moved is found by the name of its folder.
    shutil.copytree(tmp_path / "one", tmp_path / "elsewhere" / "one")
    shutil.rmtree(tmp_path / "one")
    damage(grown / "images-test.tfrecord-00000-of-00001")
    done = repair(grown, [str(tmp_path / "elsewhere" / "one")])
    assert done.repaired == ["images-test.tfrecord-00000-of-00001"], done.reason
    assert {one.file for one in done.lost} == {name}


def test_a_lost_checksum_of_stored_records_is_made_again(grown):
    build = grown / "generations/0001/build.json"
    build.write_text(build.read_text().replace('"started"', '"Started"'))
    damage(grown / "generations/0001/fingerprints/records.arrow")
    done = repair(grown)
    assert done.left == [], done.reason
    assert verify_set(grown).notes == []
    check_same(grown, grown.with_name("whole"))


def test_without_sources_stored_records_stay_and_have_no_checksum(grown, tmp_path):
    shutil.rmtree(tmp_path / "two")
    damage(grown / "generations/0001/fingerprints/records.arrow")
    done = repair(grown)
    assert [one.file for one in done.left] == ["generations/0001/fingerprints/records.arrow"]
    assert str(tmp_path / "two") in done.reason


@pytest.mark.parametrize("moved", [False, True])
def test_records_of_a_compacted_set(grown, tmp_path, moved):
    """Their ids are those of several builds, which had a source each."""
    compact(grown)
    expected = {name: (grown / name).read_bytes() for name in files_of(grown)}
    (shard,) = (path for path in grown.glob("images-train.tfrecord-*"))
    data = bytearray(shard.read_bytes())
    data[100::200] = bytes(len(data[100::200]))
    shard.write_bytes(data)
    names = ["one", "two", "three"]
    if moved:
        (tmp_path / "new").mkdir()
        for name in names:
            shutil.move(tmp_path / name, tmp_path / "new" / name)
    done = repair(grown, [str(tmp_path / "new" / name) for name in names] if moved else [])
    assert (done.left, done.lost) == ([], [])
    assert {name: (grown / name).read_bytes() for name in files_of(grown)} == expected


@pytest.mark.parametrize(
    ("moved", "removed"),
    each_value_once([False, True], [(), ("c0/one4.jpg", "c1/two11.jpg", "c0/broken.jpg")]),
)
def test_files_of_all_records_of_a_compacted_set(grown, tmp_path, moved, removed):
    """Its builds are made again, and compacted; removed records are those that it lacks."""
    compact(grown, removed)
    shutil.rmtree(tmp_path / "whole")
    shutil.copytree(grown, tmp_path / "whole")
    given = []
    if moved:
        (tmp_path / "new").mkdir()
        for name in ("three", "two", "one"):
            shutil.copytree(tmp_path / name, tmp_path / "new" / name, copy_function=shutil.copy)
            shutil.rmtree(tmp_path / name)
            given.append(str(tmp_path / "new" / name))
    quarantine = naming.quarantine_file(0)
    for name in (naming.index_file("train"), naming.DUPLICATES, naming.MANIFEST, quarantine):
        if not (grown / name).exists():
            continue  # its only record was removed
        damage(grown / name)
        done = repair(grown, given)
        assert (done.left, done.lost) == ([], []), (name, done.reason)
        check_same(grown, tmp_path / "whole")


def test_records_of_a_lost_quarantine_are_not_taken_for_removed_ones(grown, tmp_path):
    compact(grown)
    shutil.rmtree(tmp_path / "whole")
    shutil.copytree(grown, tmp_path / "whole")
    (grown / naming.quarantine_file(0)).unlink()
    done = repair(grown)
    assert (done.left, done.lost) == ([], []), done.reason
    check_same(grown, tmp_path / "whole")


def test_removed_records_that_no_whole_file_shows_are_named(grown, tmp_path):
    compact(grown, ["c0/one4.jpg"])
    names = [naming.index_file("train"), naming.STORED_RECORDS, *naming.table_files("train")]
    expected = files_of(grown)
    for name in names:
        (grown / name).unlink()
    done = repair(grown)  # by the list of removed records
    assert (done.left, done.lost) == ([], []), done.reason
    assert files_of(grown) == expected
    for name in (*names, naming.REMOVED, naming.REMOVED_COPY):
        (grown / name).unlink()
    before = files_of(grown)
    done = repair(grown)
    assert "1 of 24 records were removed from" in done.reason
    assert {one.file for one in done.left} >= {naming.index_file("train"), naming.STORED_RECORDS}
    assert files_of(grown) == before


def test_a_set_that_was_compacted_twice(grown, write_corpus, append_to, tmp_path):
    compact(grown)
    append_to(write_corpus("four", {"c0/four70": 70, "c1/four3": 3}), no_report=False)
    for step in (lambda: None, lambda: compact(grown)):
        step()
        shutil.rmtree(tmp_path / "whole")
        shutil.copytree(grown, tmp_path / "whole")
        for name in (naming.index_file("train"), naming.quarantine_file(0)):
            damage(grown / name)
        done = repair(grown)
        assert (done.left, done.lost) == ([], []), done.reason
        check_same(grown, tmp_path / "whole")
