"""Folders that are no classes, most likely: it is said, and asked what is meant."""

from __future__ import annotations

import json

import pytest

from beam_jobs.options import ImageOptions
from beam_jobs.stages.list import resolve_options
from shard_format import InputError

COCO = {
    "info": {"year": 2017},
    "images": [{"id": 1, "file_name": "1.jpg", "height": 2, "width": 3}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 7, "bbox": [0, 0, 1, 1]}],
    "categories": [{"id": 7, "name": "cat", "supercategory": "animal"}],
}


def resolved(*sources, **options):
    return resolve_options(ImageOptions(tuple(map(str, sources)), "out", **options))


def refusal(*sources, **options):
    with pytest.raises(InputError) as info:
        resolved(*sources, **options)
    return str(info.value)


def write_json(path, value, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, **options))
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_coco(indent, corpus, tmp_path):
    root = corpus("images/val/1.jpg", "images/val/2.jpg", folder="coco")
    table = write_json(root / "annotations" / "instances.json", COCO, indent=indent)
    said = refusal(root)
    assert "coco/annotations/instances.json has labels in the form of COCO" in said
    assert f"{root} --out out --exclude '*.json' --no-labels" in said
    assert f"{root} --out out --exclude '*.json' --labels FILE" in said
    assert f"{root} --out out --source class-folders" in said
    assert "The classes would be annotations/ and images/. For images without" in said
    for options in (
        {"no_labels": True},
        {"source": "class-folders"},
        {"label_pattern": r"(?P<label>\d)"},
        {"base": "set"},  # an append; the set's first build was asked
    ):
        assert resolved(root, **options).source == "class-folders"
    with pytest.raises(InputError, match=r"coco/annotations/instances.json is a file in the form"):
        list(_listed(root, labels=str(table)))


def _listed(root, **options):
    from beam_jobs.corpus.listing import CorpusListing
    from beam_jobs.record_types import RECORD_TYPES

    job = resolved(root, **options)
    return CorpusListing(job, RECORD_TYPES["image"](job).extractor, print).items([root])


def test_a_file_of_coco_next_to_classes(corpus):
    root = corpus("cat/1.jpg", "dog/2.jpg")
    assert resolved(root).source == "class-folders"
    write_json(root / "labels.json", {"cat": ["1.jpg"]})
    write_json(root / "other.json", [COCO])
    assert resolved(root).source == "class-folders"
    write_json(root / "instances.json", {name: COCO[name] for name in ("annotations", "images")})
    assert "photos/instances.json has labels in the form of COCO" in refusal(root)
    assert resolved(root, exclude="*.json").source == "class-folders"


@pytest.mark.parametrize(
    "names",
    [
        ("images/1.jpg", "labels/1.txt"),
        ("train/images/1.jpg", "train/labels/1.txt", "val/images/2.jpg", "val/labels/2.txt"),
        ("JPEGImages/1.jpg", "Annotations/1.xml", "ImageSets/a.txt"),
    ],
)
def test_folders_that_are_not_named_like_classes(names, corpus):
    said = refusal(corpus(*names))
    assert "which are not named like classes" in said
    assert "--no-labels" in said and "--labels FILE" in said and "--exclude" not in said


def test_one_class(corpus, tmp_path):
    root = corpus("cat/1.jpg", "cat/2.jpg")
    said = refusal(root)
    assert "photos has one folder with images. Every image would have the class 'cat'" in said
    assert "the folders in it" not in said
    assert resolved(root, source="class-folders").source == "class-folders"
    outer = corpus("photos/cat/1.jpg", "photos/dog/2.jpg", folder="outer")
    assert f"the classes:\n  shardmill preprocess images {outer}/photos --out out" in refusal(outer)
    splits = corpus("train/cat/1.jpg", "test/cat/2.jpg", folder="splits")
    assert "the class 'cat'" in refusal(splits)
    assert resolved(splits, split="folders").source == "class-folders"
    assert resolved(corpus("cat/a.txt", folder="texts", data=b"text")).source == "class-folders"


def test_a_json_file_that_is_no_table(corpus, tmp_path):
    root = corpus("cat/1.jpg")
    for value in ([{"path": "cat/1.jpg", "label": "x"}], {"cat/1.jpg": "x"}):
        table = write_json(tmp_path / "labels.json", value, indent=1)
        with pytest.raises(InputError, match=r"all lines are one JSON value\. Write one object a"):
            list(_listed(root, labels=str(table)))


def test_kept_columns_of_pixels(corpus, tmp_path):
    root, table = corpus("1.jpg", folder="flat"), tmp_path / "labels.csv"
    table.write_text("path,label,bbox,xmin,caption\n1.jpg,a,1 2 3 4,1,box\n")

    def notes(kept, **options):
        return resolved(root, labels=str(table), keep_columns=kept, **options).notes

    (note,) = notes("caption,bbox,xmin:int64")
    assert note.startswith("--keep-columns bbox,xmin: numbers in pixels are those of the original")
    assert "--resize shorter:256 changes" in note and "source_width and source_height" in note
    assert notes("bbox", resize="none") == notes("caption,toolbox,disappointing") == ()
