"""--split where it is not given: folders of splits, or a question where it is not clear."""

from __future__ import annotations

import re
import shlex
import zipfile

import pytest

from beam_jobs import preprocess
from beam_jobs.corpus import split_folders
from beam_jobs.options import OPTIONS, ImageOptions
from beam_jobs.stages.list import resolve_options
from shard_format import InputError

from .conftest import JPEG, tar_of, zip_of

FRACTIONS = "train=0.9,test=0.1"


def settled(*sources, kind="image", **options):
    return resolve_options(OPTIONS[kind](tuple(map(str, sources)), "out", **options))


def split_classes(*splits, classes=("cat", "dog")):
    return [f"{split}/{name}/1.jpg" for split in splits for name in classes]


def test_folders_with_the_same_classes_are_splits(corpus, records):
    root = corpus("README.md", *split_classes("train", "Val", "testing"))
    job = settled(root)
    assert job.split == "folders"
    (note,) = job.notes
    assert note.endswith(
        "/photos has train/, Val/ and testing/ with the same classes: --split folders is used."
    )
    results = {name: (raw.split, raw.label) for name, raw in records(root).items() if len(raw) == 4}
    assert results["Val/dog/1.jpg"] == ("validation", "dog")
    assert {label for _, label in results.values()} == {"cat", "dog"}


def test_the_note_comes_before_the_work(corpus, tmp_path):
    root, called = corpus(*split_classes("train", "test")), []
    preprocess(
        ImageOptions(root, tmp_path / "set", keep_empty=True),
        on_progress=lambda stage, done, total: called.append(stage),
        on_note=called.append,
    )
    assert called[0].endswith("--split folders is used.") and called[1] == "list"


@pytest.mark.parametrize(
    "names",
    [
        ("cat/1.jpg", "dog/1.jpg"),
        ("cat/train/1.jpg", "cat/test/1.jpg", "dog/1.jpg"),
        ("trains/1.jpg", "buses/1.jpg"),
        ("1.jpg",),
    ],
)
def test_other_folders_are_classes_as_ever(corpus, names):
    job = settled(corpus(*names))
    assert (job.split, job.notes) == (FRACTIONS, ())
    assert job.config() == ImageOptions(("x",), "out", source="class-folders").config()


def test_classes_that_some_splits_lack_are_no_question(corpus):
    root = corpus(
        *split_classes("train", classes=("neg", "pos", "unsup")),
        *split_classes("test", classes=("neg", "pos")),
    )
    assert settled(root).split == "folders"
    assert settled(root, kind="text").split == "folders"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train/1.jpg", "val/1.jpg", "cats/1.jpg"), "train/ and val/ next to cats/"),
        (("train/1.jpg", "test/1.jpg"), "train/ and test/ with no class folders inside"),
        (("train/a/x/1.jpg", "train/b/x/1.jpg", "val/x/1.jpg"), "with different folders inside"),
        (("test/cat/1.jpg",), "has no other folder than test/"),
        (("val/cat/1.jpg", "dev/cat/1.jpg"), "has no other folder than dev/ and val/"),
    ],
)
def test_what_is_not_clear_is_refused_with_both_commands(corpus, names, message, monkeypatch):
    root = corpus(*names)
    monkeypatch.chdir(root.parent)
    with pytest.raises(InputError) as error:
        settled("photos", resize="none", seed=3)
    assert message in str(error.value)
    commands = [shlex.split(line) for line in re.findall("\n  (.*)", str(error.value))]
    splits = [words.pop(words.index("--split") + 1) for words in commands]
    assert splits == ["folders", FRACTIONS]
    common = ["shardmill", "preprocess", "images", "photos", "--out", "out"]
    assert commands[0] == [*common, "--split", "--seed", "3", "--resize", "none"]
    for split in splits:
        assert settled("photos", split=split).split == split


def test_the_command_for_a_single_split_names_the_folder_of_its_classes(corpus):
    with pytest.raises(InputError, match=r"images \S+/photos/test --out out --split train=0\.9"):
        settled(corpus("test/cat/1.jpg", "test/dog/1.jpg"))


def test_what_labels_do_not_come_from_is_not_asked(corpus, tmp_path):
    unclear = corpus("train/1.jpg", "val/1.jpg", "cats/1.jpg")
    table = tmp_path / "labels.csv"
    table.write_text("path,label\ntrain/1.jpg,a\n")
    assert settled(unclear, no_labels=True).split == FRACTIONS
    assert settled(unclear, labels=str(table)).split == FRACTIONS
    assert settled(unclear, label_pattern="(?P<label>.)").split == FRACTIONS
    bare = corpus("train/1.jpg", "test/1.jpg", folder="bare")
    job = settled(bare, no_labels=True)
    assert job.split == "folders"
    assert "has train/ and test/ and no other folder" in job.notes[0]


def test_fractions_that_are_needed_are_kept_or_asked_for(corpus):
    with pytest.raises(InputError, match="--stratify needs fractions") as error:
        settled(corpus(*split_classes("train", "test")), stratify=True)
    assert "--split folders\n" in str(error.value)  # without --stratify
    assert "--split train=0.9,test=0.1 --stratify" in str(error.value)
    tables = corpus("train/a.jsonl", "test/b.jsonl", folder="t", data=b'{"text": "a", "label": 1}')
    assert settled(tables, kind="text").split == "folders"
    assert settled(tables, kind="text", stratify=True).split == FRACTIONS


def test_documents_in_folders_of_splits(corpus):
    root = corpus("train/1.txt", "test/2.txt", data=b"some words")
    with pytest.raises(InputError, match="no class folders inside"):
        settled(root, kind="text")
    assert settled(root, kind="text", no_labels=True).split == "folders"
    job = settled(root, kind="text", split="folders")
    assert job.no_labels
    mixed = corpus("tests/1.txt", "test/2.txt", "notes.txt", folder="code", data=b"some words")
    assert settled(mixed, kind="text").split == FRACTIONS  # the folders are no classes anyway


def test_archives_with_folders_of_splits(tmp_path, records):
    members = {name: JPEG for name in split_classes("train", "test")}
    outer = {f"photos/{name}": data for name, data in members.items()}
    for archive in (
        zip_of(tmp_path / "a.zip", members, zipfile.ZIP_DEFLATED),
        tar_of(tmp_path / "b.tar", outer),
        tar_of(tmp_path / "folder" / "c.tar", members).parent,
    ):
        results = records(archive)
        assert {(raw.split, raw.label) for raw in results.values()} == {
            (split, label) for split in ("train", "test") for label in ("cat", "dog")
        }
    packed = tar_of(tmp_path / "d.tar.gz", {f"train/cat/{n}.jpg": JPEG for n in range(20)}, "w:gz")
    with pytest.raises(InputError, match="no other folder than train/"):
        settled(packed)
    results = records(tmp_path / "a.zip", tmp_path / "b.tar", source="zip")
    assert {raw.split for name, raw in results.items() if "a.zip/" in name} == {"train", "test"}
    web = {f"train/{n}.{end}": b"cat" for n in range(3) for end in ("jpg", "cls")}
    assert settled(tar_of(tmp_path / "web.tar", web)).split == FRACTIONS


def test_sources_with_the_names_of_splits(corpus, records):
    root = corpus(*split_classes("train", "test"))
    results = records(root / "train", root / "test")
    assert {name: (raw.split, raw.label) for name, raw in results.items()} == {
        "test/cat/1.jpg": ("test", "cat"),
        "test/dog/1.jpg": ("test", "dog"),
        "train/cat/1.jpg": ("train", "cat"),
        "train/dog/1.jpg": ("train", "dog"),
    }
    (root.parent / "test").symlink_to(root / "train")  # ids have the name of the folder
    (root.parent / "train").symlink_to(root / "test")
    linked = records(root.parent / "train", root.parent / "test")
    assert {name: raw[:4] for name, raw in linked.items()} == results
    with pytest.raises(InputError, match="inside of the source"):
        settled(root, root / "train")
    plain = corpus("cat/1.jpg", folder="plain")
    with pytest.raises(InputError, match="same classes, and another source has no such folders"):
        settled(root, plain)
    other = corpus("test/bird/1.jpg", folder="other")
    assert settled(root / "train", other / "test").split == FRACTIONS
    with pytest.raises(InputError, match="other has no other folder than test/"):
        settled(root, other)


def test_the_look_is_bounded(corpus, monkeypatch):
    root = corpus(*(f"train/{n}/1.jpg" for n in range(40)), *(f"test/{n}/1.jpg" for n in range(40)))
    seen = []
    real = split_folders.some_folders
    monkeypatch.setattr(split_folders, "_MAX_CLASSES", 10)
    monkeypatch.setattr(
        split_folders, "some_folders", lambda *args: seen.append(real(*args)) or seen[-1]
    )
    settled(root, split="folders")
    assert not seen
    assert settled(root, no_labels=True).split == "folders"
    assert [len(entries) for entries in seen] == [2, 10, 10]
