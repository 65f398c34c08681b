"""A compaction that is killed at each of its steps; then what verification advises, no more.

`test_kills_at_operations` kills it at file operations.
"""

from __future__ import annotations

import dataclasses
import re
import shutil

import pytest

from beam_jobs import publishing
from beam_jobs.generations.compact import compact
from beam_jobs.publishing import write_state
from beam_jobs.repair import repair
from cli.main import shardmill
from shard_format import DamageError, ShardmillError, load_manifest, naming, verify_set
from shard_format.compaction import State
from tests.fixtures.generations import Killed
from tests.fixtures.proofs import proofs

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(10)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(4)} | {"b/copy": 1, "a/twice": 102}


@pytest.fixture
def base(write_corpus, begin_set, append_to, tmp_path):
    """A set of two generations with a report, near duplicates and damaged files in both."""
    old, new = write_corpus("old", OLD), write_corpus("new", NEW)
    for folder in (old, new):
        (folder / "a" / f"bad-{folder.name}.jpg").write_bytes(b"no image but " + b"bytes" * 9)
    begin_set(old, "base", num_shards=2, dedup="near", no_report=False)
    append_to(new, "base", no_report=False)
    assert (tmp_path / "base" / naming.REPORT).exists()
    return tmp_path / "base"


def _names(directory):
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*")}


def _follow(directory):
    """Does what verification advises, until it advises nothing."""
    for _ in range(4):
        verified = verify_set(directory)
        assert verified.damages == [], verified.damages
        if not verified.notes:
            return
        note = verified.notes[-1]  # that of a compaction comes last
        if "the same 'shardmill compact' command" in note:
            compact(directory)
        else:
            command = re.search(r"'shardmill ([^']+)'", note)
            assert command, note
            shardmill.main(command[1].split(), standalone_mode=False)
    pytest.fail(f"It advises without end: {verify_set(directory).notes}")


def _killed_in(base, out, step):
    """A compaction of a copy that was killed at a step; see `publishing`."""
    shutil.copytree(base, out)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(publishing, step, _die)
        compact(out)


def _die(*args, **options):
    raise Killed


@pytest.mark.parametrize("text", ["{}", *proofs("[]", "5", "", "{"), '{"digest": 1}', None])
def test_a_damaged_state_follows_from_the_manifests(base, tmp_path, text):
    """Before its set is whole, while files get their names, and while others are deleted."""
    shutil.copytree(base, tmp_path / "whole")
    whole = compact(tmp_path / "whole").manifest
    for number, step in enumerate(("publish_set", "_replace", "_give_name", "_delete_others")):
        out = tmp_path / f"out{number}"
        if step == "publish_set":
            shutil.copytree(base, out)
            (out / naming.COMPACTED_DIR).mkdir()
        else:
            _killed_in(base, out, step)
        place = out / naming.COMPACT_STATE
        place.unlink(missing_ok=True) if text is None else place.write_text(text)
        before = load_manifest(out)
        verified = verify_set(out)
        assert verified.damages == []
        assert "was interrupted" in verified.notes[-1], step
        repair(out, delete_extra=True)
        is_old = step in ("publish_set", "_replace")
        assert load_manifest(out) == (before if is_old else whole)
        _follow(out)
        assert load_manifest(out) == whole
        assert _names(out) - {naming.WORK_DIR} == _names(tmp_path / "whole")


def test_a_damaged_manifest_of_a_compaction(base, tmp_path):
    """The new set is whole beside it, so it is completed."""
    shutil.copytree(base, tmp_path / "whole")
    whole = compact(tmp_path / "whole").manifest
    for number, step in enumerate(("_give_name", "_delete_others")):
        out = tmp_path / f"out{number}"
        _killed_in(base, out, step)
        (out / naming.MANIFEST).write_text("{")
        with pytest.raises(DamageError):
            verify_set(out)
        done = repair(out, delete_extra=True)
        assert done.left == [] and load_manifest(out) == whole
        assert _names(out) == _names(tmp_path / "whole")


def test_a_missing_file_of_a_compaction(base, tmp_path):
    """compact names it and the repair, which takes the last steps and then has it from SRC."""
    _killed_in(base, tmp_path / "set", "_give_name")
    manifest = load_manifest(tmp_path / "set")
    lost = manifest.splits["train"].shards[0].file
    (tmp_path / "set" / lost).unlink()
    (damage,) = verify_set(tmp_path / "set").damages
    assert damage.file == lost
    with pytest.raises(DamageError, match=r"is missing. Run 'shardmill repair"):
        compact(tmp_path / "set")
    done = repair(tmp_path / "set")
    assert done.repaired[0] == lost.removeprefix(f"{naming.COMPACTED_DIR}/")
    assert (done.left, done.lost) == ([], [])
    assert verify_set(tmp_path / "set").notes == []


def test_a_damaged_file_of_a_compaction_that_replaced_nothing(base, tmp_path):
    """The old set is whole, and stays."""
    _killed_in(base, tmp_path / "set", "_replace")
    before = load_manifest(tmp_path / "set")
    index = tmp_path / "set" / naming.COMPACTED_DIR / naming.index_file("train")
    data = bytearray(index.read_bytes())
    data[len(data) // 2] ^= 1
    index.write_bytes(data)
    notes = []
    done = repair(tmp_path / "set", on_note=notes.append)
    assert "given up" in notes[0] and done.left == []
    assert load_manifest(tmp_path / "set") == before
    assert verify_set(tmp_path / "set").notes == []
    assert compact(tmp_path / "set").merged == 2


def test_an_abandoned_compaction_of_one_generation_leaves_nothing(
    write_corpus, begin_set, tmp_path
):
    begin_set(write_corpus("old", OLD), "base")
    before = _names(tmp_path / "base")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr("beam_jobs.generations.compact._write_build", _die)
        compact(tmp_path / "base", {"a/old4.jpg"})
    (note,) = verify_set(tmp_path / "base").notes
    assert "the same 'shardmill compact' command again" in note
    assert not compact(tmp_path / "base").changed
    assert _names(tmp_path / "base") == before


def test_a_hostile_compaction(base, tmp_path):
    """A manifest may say that a set is in generations/compacted where there is another one."""
    _killed_in(base, tmp_path / "set", "_give_name")
    manifest = load_manifest(tmp_path / "set")
    other = dataclasses.replace(manifest.generations[0], root_hash="0" * 64)
    text = dataclasses.replace(manifest, generations=(other,)).to_text()
    (tmp_path / "set" / naming.MANIFEST).write_text(text)
    for change in (compact, repair):
        with pytest.raises(ShardmillError, match="has another root hash"):
            change(tmp_path / "set")


def test_a_state_that_names_a_set_of_generations(base):
    """It was not written for this set, whose generations are not deleted."""
    root_hash, names = load_manifest(base).root_hash, _names(base)
    write_state(base, State("", 2, 0, [], True, root_hash))
    assert "was interrupted" in verify_set(base).notes[-1]
    repair(base, delete_extra=True)
    assert load_manifest(base).root_hash == root_hash and names < _names(base)
    assert compact(base).merged == 2
    assert verify_set(base).damages == [] and verify_set(base).notes == []


def test_what_other_killed_commands_leave_is_no_damage(base, tmp_path):
    """A temporary file, a report that is missing or old, an append in its folder."""
    temporary = f".{'0a' * 16}.part"
    for folder in ("", "index/", "generations/0001/", "generations/"):
        (base / folder / temporary).write_bytes(b"half")
    report = (base / naming.REPORT).read_bytes()
    (base / naming.REPORT).unlink()
    (base / "generations/0002").mkdir()
    verified = verify_set(base)
    assert verified.damages == []
    assert [damage.file for damage in verified.minor] == [
        naming.REPORT,
        temporary,
        f"generations/{temporary}",
        f"generations/0001/{temporary}",
        "generations/0002/",
        f"index/{temporary}",
    ]
    repair(base, delete_extra=True)
    assert (base / naming.REPORT).read_bytes() == report
    assert [damage.file for damage in verify_set(base).minor] == ["generations/0002/"]
    assert (base / "generations/0002").is_dir()  # of an append that may still run
    (base / "generations/0002").rmdir()
    (base / "generations/notes").mkdir()
    assert [damage.file for damage in verify_set(base).damages] == ["generations/notes/"]


def test_the_report_of_an_earlier_generation_is_a_note(base, append_to, write_corpus):
    report = (base / naming.REPORT).read_bytes()
    append_to(write_corpus("more", {"a/more": 77}), "base", no_report=False)
    (base / naming.REPORT).write_bytes(report)
    verified = verify_set(base)
    assert verified.damages == [] and "earlier generation" in verified.notes[0]
    shardmill.main(["report", str(base)], standalone_mode=False)
    assert verify_set(base).notes == []
