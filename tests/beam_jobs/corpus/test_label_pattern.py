"""--label-pattern: labels, splits and groups from names, and the pattern that is suggested."""

from __future__ import annotations

import os
import tarfile
import time

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.corpus.label_pattern import guess_pattern
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from shard_format import InputError, UsageError

from .conftest import JPEG, columns_of, kept, reasons, tar_of, zip_of


def labels(results):
    return {name: label for name, (_, label) in kept(results).items()}


def test_labels_from_file_names(corpus, records):
    root = corpus("n01440764_tench.JPEG", "deep/er/n2_red fox.JPEG", "x.JPEG", "n3_ .JPEG")
    results = records(root, label_pattern=r"n\d+_(?P<label>.+)\.JPEG")
    assert labels(results) == {
        "n01440764_tench.JPEG": "tench",
        "deep/er/n2_red fox.JPEG": "red fox",
    }
    assert reasons(results) == {"x.JPEG": "no-match", "n3_ .JPEG": "no-match"}
    assert results["x.JPEG"][1:] == ("--label-pattern finds no label in 'x.JPEG'", JPEG)


def test_a_pattern_with_a_slash_is_searched_in_the_path(corpus, records):
    root = corpus("train/pos/1.jpg", "val/pos_neg/2.jpg", "train/neg/3.jpg", "other/neg/4.jpg")
    results = records(root, label_pattern="^(?P<split>train|val|other)/(?P<label>[^/]+)/")
    assert labels(results) == {
        "train/neg/3.jpg": "neg", "train/pos/1.jpg": "pos", "val/pos_neg/2.jpg": "pos_neg",
    }  # fmt: skip
    assert {raw.split for raw in results.values() if type(raw) is not tuple} == {
        "train",
        "validation",
    }
    assert reasons(results) == {"other/neg/4.jpg": "no-split"}


def test_groups_and_splits_next_to_class_folders(corpus, records):
    root = corpus("cat/p1_1.jpg", "cat/p1_2.jpg", "dog/p2_1.jpg", "dog/3.jpg")
    results = records(root, label_pattern=r"^(?P<group>p\d+)_")
    assert [(raw.label, raw.group) for raw in results.values()] == [
        ("cat", "p1"), ("cat", "p1"), ("dog", None), ("dog", "p2"),
    ]  # fmt: skip


def test_members_of_archives(tmp_path, records):
    members = {"a/cat_1.jpg": JPEG, "dog_2.jpg": JPEG, "b/nothing.jpg": JPEG}
    for archive in (zip_of(tmp_path / "a.zip", members), tar_of(tmp_path / "a.tar", members)):
        results = records(archive, label_pattern=r"^(?P<label>[a-z]+)_\d")
        assert labels(results) == {
            f"{archive.name}/a/cat_1.jpg": "cat",
            f"{archive.name}/dog_2.jpg": "dog",
        }
        assert reasons(results) == {f"{archive.name}/b/nothing.jpg": "no-match"}
    results = records(archive, label_pattern=r"a\.(?P<label>zip|tar)/")
    assert set(labels(results).values()) == {"tar"}
    web = tar_of(tmp_path / "web.tar", {"cat_1.jpg": JPEG, "cat_1.json": b'{"label": 7}'})
    assert labels(records(web, label_pattern="(?P<label>[a-z]+)_")) == {"web.tar/cat_1.jpg": "cat"}
    twice = tar_of(tmp_path / "twice.tar", {})
    with tarfile.open(twice, "w") as file:
        for _ in range(2):
            file.add(tmp_path / "web.tar", "dog_1.jpg")
    results = records(twice, label_pattern=r"(?P<label>[a-z]+)_\d\.jpg$")
    assert labels(results) == {"twice.tar/dog_1.jpg": "dog", "twice.tar/dog_1.jpg//2": "dog"}


def test_rows_take_the_label_of_their_file(make_images, tmp_path, records):
    (tmp_path / "tables").mkdir()
    table = columns_of(make_images(4))
    pq.write_table(table, tmp_path / "tables" / "good.parquet")
    pq.write_table(table.drop_columns(["label"]), tmp_path / "tables" / "bad.parquet")
    results = records(tmp_path / "tables", label_pattern=r"(?P<label>\w+)\.parquet")
    assert sorted({label for label in labels(results).values()}) == ["bad", "good"]
    assert len(results) == 8


def test_names_that_are_not_utf8_are_searched_as_their_ids_spell_them(tmp_path, records):
    folder = tmp_path / "flat"
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9_1.jpg")).write_bytes(JPEG)
    results = records(folder, label_pattern=r"^(?P<label>.+)_\d")
    assert labels(results) == {"caf//xe9_1.jpg": "caf//xe9"}


def test_no_pattern_takes_long(corpus, records):
    root = corpus("a" * 200 + "!.jpg")
    start = time.process_time()
    results = records(root, label_pattern=r"^(?P<label>(?:(?:a+)+)+)$")
    assert reasons(results) == {"a" * 200 + "!.jpg": "no-match"}
    assert time.process_time() - start < 5  # Python's `re` would not end


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("cat", r"has the named groups \(none\)"),
        ("(?P<name>cat)", "has the named groups name"),
        ("(?P<label>a)(?P<label>b)", "each once"),
        ("(?P<label>", "missing"),
        ("(?=x)(?P<label>x)", "RE2 takes"),
        ("(a|b)(?P<label>x)", r"unnamed groups.*\(\?:\.\.\.\)"),
    ],
)
def test_patterns_that_cannot_be_used(pattern, message):
    with pytest.raises(UsageError, match=message):
        ImageOptions(("x",), "out", label_pattern=pattern)


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        (
            "(?P<label>x)",
            {"labels": "t.csv"},
            "--label-pattern takes labels .* --labels",
        ),
        ("(?P<label>x)", {"label_column": "a"}, "'label'.* --label-column"),
        ("(?P<group>x)", {"group_by": "a"}, "'group'.* --group-by"),
        ("(?P<split>x)", {"split": "folders"}, "'split'.* --split folders"),
        ("(?P<split>x)", {"stratify": True}, "--stratify needs fractions"),
        ("(?P<label>x)", {"split": "pattern"}, "has no --label-pattern"),
    ],
)
def test_options_that_contradict_a_pattern(pattern, options, message):
    for kind in (ImageOptions, TextOptions):
        with pytest.raises(UsageError, match=message):
            kind(("x",), "out", label_pattern=pattern, **options)


def test_only_jobs_with_a_pattern_have_it_in_their_config():
    assert "label_pattern" not in ImageOptions(("x",), "out").config()
    job = ImageOptions(("x",), "out", label_pattern="(?P<split>x)")
    assert (job.config()["label_pattern"], job.config()["split"]) == ("(?P<split>x)", "pattern")


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("{label}.{number}.jpg", ["cat", "dog", "red_fox"]),
        ("{label}_{number}.jpg", ["Abyssinian", "great_pyrenees"]),
        ("{label}-{number:03d}.png", ["cat", "red-fox"]),
        ("{label} ({number}).jpeg", ["cat", "red fox"]),
        ("{label}{number}.jpg", ["airplane", "car"]),
        ("n{number:08d}_{label}.JPEG", ["great_white_shark", "tench"]),
        ("{label}_{number}_left.jpg", ["cat", "dog"]),
    ],
)
def test_the_usual_names_are_guessed(name, classes):
    names = [name.format(label=label, number=7 * n) for label in classes for n in range(20)]
    results = guess_pattern([f"photos.zip/{one}" for one in [*names, "LICENSE"]])
    assert results is not None
    assert results.classes == classes
    assert str(results).startswith(f"{len(classes)} classes ({classes[0]!r}")


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["1.jpg"],
        [f"{n}.jpg" for n in range(9)],
        [f"IMG_{n}.jpg" for n in range(9)],
        [f"n{n}_{'abcdefghi'[n]}.jpg" for n in range(9)],
        ["cat_1.jpg", "dog_1.jpg", *(f"{n}.jpg" for n in range(9))],
    ],
)
def test_names_without_classes_are_not_guessed(names):
    assert guess_pattern(names) is None


def test_classes_of_wordnet_are_guessed_by_one_image_of_each():
    names = ["n01440764_tench.JPEG", "n01443537_goldfish.JPEG", "n01484850_great_white_shark.JPEG"]
    results = guess_pattern(names)
    assert results.classes == ["goldfish", "great_white_shark", "tench"]


def test_a_thousand_sources_are_not_listed(corpus):
    root = corpus(*(f"{label}_{n}.jpg" for n in range(500) for label in ("cat", "dog")))
    job = ImageOptions(tuple(map(str, sorted(root.iterdir()))), str(root.parent / "set"))
    with pytest.raises(InputError) as info:
        preprocess(job)
    said = str(info.value)
    assert f"among 1,000 files in {root}/cat_0.jpg, {root}/cat_1.jpg, " in said
    assert "/cat_10.jpg and 997 more: 'cat_0.jpg' is rejected" in said and len(said) < 1500
    assert "2 classes ('cat', 'dog'):\n  shardmill preprocess images SRC... --out" in said


@given(st.lists(st.text(max_size=20), max_size=20))
def test_a_guess_has_shared_labels(names):
    names = [name.encode("utf-8", "replace").decode() for name in names]
    results = guess_pattern(names)
    assert results is None or 2 <= len(results.classes) <= len(names) / 2
