"""Deletion stays in a set, and nothing is changed through a symbolic link."""

from __future__ import annotations

import re
import shutil
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from shard_format import InputError, load_manifest, naming, set_paths, verify_set
from shard_format.set_paths import check_no_links, delete_in_set, is_in_set, linked_folders


@pytest.fixture
def around(tmp_path):
    """A folder with `set`, and files beside it that must stay."""
    for name in ("set/index/a", "set/b", "other/index/a", "x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", ["", ".", "..", "/", "../x", "index/../../x", "//etc", "a\0b"])
def test_a_name_outside_is_not_deleted(around, name):
    names = sorted(around.rglob("*"))
    with pytest.raises(InputError, match="was not deleted"):
        delete_in_set(around / "set", name)
    with pytest.raises(InputError, match="was not deleted"):
        delete_in_set(around / "set", str(around / "x"))
    assert sorted(around.rglob("*")) == names


@given(st.text("aZ9._-/:\\\0\x7f é", max_size=12) | st.text("a/", min_size=250, max_size=260))
@example(".shardmill/x")
def test_a_plain_name_is_one_that_all_rules_allow(name):
    with mock.patch.object(set_paths, "_PLAIN", re.compile("(?!)")):
        allowed = is_in_set(name)
    assert is_in_set(name) == allowed


def test_files_folders_and_links_are_deleted_and_nothing_they_lead_to(around):
    for link in ("linked", "index/linked"):
        (around / "set" / link).symlink_to(around / "other")
    (around / "set/file").symlink_to(around / "x")
    (around / "set/index/old").mkdir()
    (around / "set/index/old/deep").symlink_to(around / "other")
    others = sorted((around / "other").rglob("*"))
    for name in ("linked/", "index/linked", "file", "index/old/", "b", "index/a", "missing"):
        delete_in_set(around / "set", name)
    assert [path.name for path in (around / "set").rglob("*")] == ["index"]
    assert sorted((around / "other").rglob("*")) == others and (around / "x").exists()


def test_a_file_in_the_place_of_a_folder_stays(around):
    """A repair puts it there before it deletes the folder that was extra."""
    delete_in_set(around / "set", "index/a/")
    assert (around / "set/index/a").is_file()


def test_a_name_through_a_link_is_not_deleted(around):
    shutil.rmtree(around / "set/index")
    (around / "set/index").symlink_to(around / "other/index")
    (around / "set/inner").symlink_to(".")
    for name in ("index/a", "inner/b"):
        with pytest.raises(InputError, match="through a symbolic link"):
            delete_in_set(around / "set", name)
    assert (around / "other/index/a").exists() and (around / "set/b").exists()
    # The set itself may be reached through a link.
    (around / "way").symlink_to(around / "set")
    delete_in_set(around / "way", "b")
    assert not (around / "set/b").exists()


def test_links_of_a_set(around):
    check_no_links(around / "set")
    (around / "set/mine").symlink_to(around / "other")  # not of the set: an extra
    check_no_links(around / "set")
    (around / "set" / naming.WORK_DIR).mkdir()
    (around / "set" / naming.WORK_DIR / "lock").symlink_to(around / "x")
    with pytest.raises(InputError, match=r"lock is a symbolic link"):
        check_no_links(around / "set")
    (around / "set/generations/0001").mkdir(parents=True)
    (around / "set/generations/0001/index").symlink_to(around / "other")
    assert list(linked_folders(around / "set")) == ["generations/0001/index"]


@pytest.mark.parametrize("folder", ["index", "quarantine", "generations/0001", "generations"])
def test_no_command_writes_through_a_link(built_twice, tmp_path, folder):
    root = tmp_path / "set"
    shutil.copytree(built_twice / "set", root)
    (root / folder).rename(tmp_path / "moved")
    (root / folder).symlink_to(tmp_path / "moved")
    (tmp_path / "moved" / "mine").write_text("of somebody")
    names = sorted((tmp_path / "moved").rglob("*"))
    verified = verify_set(root)  # what it leads to is read
    assert verified.damages == []
    assert "is a symbolic link" in verified.notes[0]
    for change in (lambda: repair(root, delete_extra=True), lambda: compact(root)):
        with pytest.raises(InputError, match=f"{folder} is a symbolic link"):
            change()
    assert sorted((tmp_path / "moved").rglob("*")) == names


def test_links_to_files_are_replaced_and_not_written_through(built_twice, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(built_twice / "set", root)
    for name in (naming.MANIFEST, naming.FEATURES, "index/train.arrow"):
        place = tmp_path / place_name(name)
        (root / name).rename(place)
        (root / name).symlink_to(place)
    assert verify_set(root).damages == []
    (tmp_path / place_name(naming.FEATURES)).write_bytes(b"{}")
    repair(root)
    assert verify_set(root).damages == [] and not (root / naming.FEATURES).is_symlink()
    assert (tmp_path / place_name(naming.FEATURES)).read_bytes() == b"{}"
    before = load_manifest(tmp_path / "set").root_hash
    compact(root)
    assert not any(path.is_symlink() for path in root.rglob("*"))
    assert before in (tmp_path / place_name(naming.MANIFEST)).read_text()


def place_name(name):
    return name.replace("/", "-")
