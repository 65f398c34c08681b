"""Sets whose manifest is lost or older than their generations: none of them may get lost."""

from __future__ import annotations

import shutil

import pytest

from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from shard_format import DamageError, InputError, load_manifest, naming, verify_set
from tests.fixtures.damage import files_of
from tests.fixtures.generations import Killed

VIEWS = [naming.MANIFEST, *(naming.view_file(number) for number in range(3))]


@pytest.fixture
def grown(write_corpus, begin_set, append_to, tmp_path):
    """A set of three generations with near duplicates in `set`; a copy of it in `whole`."""
    for name, seeds in (("one", range(12)), ("two", range(9, 18)), ("three", range(16, 24))):
        write_corpus(name, {f"c{seed % 2}/{name}{seed}": seed for seed in seeds})
    begin_set(tmp_path / "one", dedup="near")
    append_to(tmp_path / "two")
    append_to(tmp_path / "three", no_report=False)
    shutil.copytree(tmp_path / "set", tmp_path / "whole")
    return tmp_path / "set"


def check_same(directory, whole):
    assert verify_set(directory).damages == []
    assert load_manifest(directory).root_hash == load_manifest(whole).root_hash
    assert files_of(directory) == files_of(whole)


@pytest.mark.parametrize(
    "lost", [VIEWS[:1], [VIEWS[0], VIEWS[3]], [VIEWS[0], VIEWS[2]], [VIEWS[0], *VIEWS[2:]], VIEWS]
)
def test_the_newest_view_follows_from_the_generations(grown, lost):
    for name in lost:
        (grown / name).unlink()
    done = repair(grown)
    assert (done.left, done.lost) == ([], []), done.reason
    check_same(grown, grown.with_name("whole"))


@pytest.mark.parametrize(
    "lost",
    [
        ["generations/0002/manifest.json"],
        ["generations/0001/view/index/train.arrow"],
        ["generations/0001/manifest.json", naming.view_file(1)],
        ["generations/0002/index/train.arrow"],
    ],
)
def test_a_generation_that_cannot_be_had_is_named(grown, lost):
    """A manifest of fewer records would make the loss invisible."""
    for name in [naming.MANIFEST, naming.view_file(2), *lost]:
        (grown / name).unlink()
    before = files_of(grown)
    with pytest.raises(DamageError, match=lost[0]):
        repair(grown)
    assert files_of(grown) == before


def test_a_generation_that_only_the_report_knows_is_missed(grown):
    (grown / naming.MANIFEST).unlink()
    shutil.rmtree(grown / "generations/0002")
    with pytest.raises(DamageError, match=r"report\.html is of a set with root hash"):
        repair(grown)
    assert not (grown / naming.MANIFEST).exists()


def test_no_generation_is_left_of_several(grown):
    (grown / naming.MANIFEST).unlink()
    for number in (1, 2):
        shutil.rmtree(grown / naming.generation_folder(number))
    with pytest.raises(DamageError, match="generations/0001 is missing"):
        repair(grown)


def test_an_append_publishes_what_an_older_manifest_lacks(grown, write_corpus, append_to):
    """Such as one that was restored from a copy."""
    shutil.copy(grown / naming.view_file(0), grown / naming.MANIFEST)
    verified = verify_set(grown)
    assert {one.file for one in verified.damages} == {naming.REPORT}
    assert sum("does not name yet" in note for note in verified.notes) == 2
    notes: list[str] = []
    report = append_to(write_corpus("four", {"c0/four": 90}), on_note=notes.append)
    assert report.number == 3
    assert load_manifest(grown, 2) == load_manifest(grown.with_name("whole"))
    assert sum("publish" in note for note in notes) == 2
    assert verify_set(grown).damages == []


def test_a_compaction_merges_what_an_older_manifest_lacks(grown):
    shutil.copy(grown / naming.view_file(1), grown / naming.MANIFEST)
    compact(grown)
    compact(grown.with_name("whole"))
    check_same(grown, grown.with_name("whole"))


@pytest.mark.parametrize("change", ["append", "compact"])
def test_a_folder_that_is_not_named_is_never_overwritten(grown, write_corpus, append_to, change):
    """Neither is it known that it is finished, nor that it was begun by an append."""
    shutil.copy(grown / naming.view_file(1), grown / naming.MANIFEST)
    (grown / "generations/0002/manifest.json").unlink()
    (grown / naming.REPORT).unlink()
    before = files_of(grown)
    damage = next(one for one in verify_set(grown).damages if one.file != naming.REPORT)
    assert damage.file == "generations/0002/" and "does not name" in damage.problem
    with pytest.raises(InputError, match=r"generations/0002 is there, and .* does not name it"):
        if change == "append":
            append_to(write_corpus("four", {"c0/four": 90}))
        else:
            compact(grown)
    done = repair(grown, delete_extra=True)
    assert [one.file for one in done.left] == ["generations/0002/"]
    assert sorted({*files_of(grown)} - {naming.REPORT}) == before


def test_a_finished_generation_is_published_by_the_same_command(
    write_corpus, begin_set, append_to, tmp_path, monkeypatch
):
    from beam_jobs.generations import append as module

    old, new = (write_corpus(name, {f"a/{name}{n}": ord(name[0]) + n for n in range(9)})
                for name in ("old", "new"))  # fmt: skip
    for out in ("set", "whole"):
        begin_set(old, out)
    append_to(new, "whole")

    def die(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "publish", die)
        with pytest.raises(Killed):
            append_to(new)
    report = append_to(new)
    assert (report.number, report.already_built) == (1, False)
    check_same(tmp_path / "set", tmp_path / "whole")
