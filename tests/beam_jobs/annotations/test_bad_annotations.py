"""Annotations that programs and people write: each gets a reason, or a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from shard_format import InputError, UsageError
from tests.beam_jobs.annotations.annotated import SIZES, build, coco_of, photo, records_of

BOX = {"image_id": 100, "category_id": 7, "bbox": [1, 1, 8, 8], "area": 64}


@pytest.mark.parametrize(
    ("change", "objects"),
    [
        ({"segmentation": "abc"}, 1),
        ({"segmentation": 5}, 1),
        ({"segmentation": [[0, 0, 1e9, 0, 0, 10]]}, 1),  # drawing it would take all memory
        ({"segmentation": [[0, 0, 10]]}, 1),
        ({"segmentation": [[]]}, 2),  # none
        ({"id": None}, 2),
    ],
)
def test_a_value_of_coco_costs_one_object_at_most(
    photos: Path, coco: Path, change: dict[str, Any], objects: int
) -> None:
    own = [BOX | change, BOX | ({"id": None} if "id" in change else {})]
    coco.write_text(json.dumps(coco_of(own)))
    build(photos, coco)
    assert len(records_of(photos)["a/1.jpg"]["objects"]["bbox"]) == objects


def test_a_size_that_no_image_has_is_none(photos: Path, coco: Path) -> None:
    content = coco_of([BOX])
    content["images"][0] |= {"width": 1e300, "height": -4}
    coco.write_text(json.dumps(content))
    build(photos, coco)
    assert len(records_of(photos)) == 4


YAMLS = {
    "list": "names: [cat, dog]",
    "lines": "path: ../x\nnames:\n  - cat  # the first\n  - dog\n\nnc: 2",
    "mapping": "names:\n  0: cat\n  1: dog\n\nnc: 2\ndownload: http://a",
    "gaps": "names:\n  # comment\n  7: bird\n  1: dog\n",
    "flow": "names: {0: cat, 1: dog}",
}


@pytest.mark.parametrize("content", YAMLS)
def test_classes_of_yolo_have_the_numbers_of_the_file(
    photos: Path, tmp_path: Path, content: str
) -> None:
    folder = tmp_path / "labels"
    for name in SIZES:
        file = folder / name.replace(".jpg", ".TXT")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1 0.5 0.5 0.2 0.4\ninf 0.5 0.5 0.1 0.1\n")
    (folder / "data.yaml").write_text(YAMLS[content])
    done = build(photos, folder, annotations_format="yolo")
    names = done.manifest.schema["objects/label"].class_names
    assert names == (("dog", "bird") if content == "gaps" else ("cat", "dog"))
    for record in records_of(photos).values():
        assert [names[one] for one in record["objects"]["label"]] == ["dog"]


def test_yaml_that_names_nothing_is_refused(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/1.txt").write_text("0 0.5 0.5 0.1 0.1")
    (tmp_path / "labels/data.yaml").write_text("names: 5")
    with pytest.raises(InputError, match="has no names of classes"):
        build(photos, tmp_path / "labels")


def test_shares_of_an_image_are_those_of_it_upright(photos: Path, tmp_path: Path) -> None:
    """Programs that draw boxes show images upright, and so Ultralytics takes shares."""
    (photos / "a/1.jpg").write_bytes(photo(SIZES["a/1.jpg"], 0, 6))
    for name in SIZES:
        file = tmp_path / "labels" / name.replace(".jpg", ".txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("0 0.25 0.125 0.5 0.25\n")
    (tmp_path / "labels/classes.txt").write_text("cat\n")
    build(photos, tmp_path / "labels")
    for record in records_of(photos).values():
        assert record["objects"]["bbox"][0].tolist() == pytest.approx([0, 0, 0.25, 0.5])


@pytest.mark.parametrize(
    ("name", "content"),
    [("boxes.csv", b""), ("boxes.parquet", b"PAR1garbage"), ("boxes.csv", b"a,b\n1,2\n")],
)
def test_tables_that_are_none_are_refused(
    photos: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    for options in ({}, {"annotations_format": "csv"}):
        with pytest.raises(InputError, match="--annotations"):
            build(photos, tmp_path / name, **options)


@pytest.mark.parametrize("encoding", ["gbk", "no-such-encoding"])
def test_xml_in_another_encoding_is_refused(photos: Path, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "xml").mkdir()
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    (tmp_path / "xml/1.xml").write_text(f"{head}<annotation/>")
    with pytest.raises(InputError, match="is not XML"):
        build(photos, tmp_path / "xml")


@pytest.mark.parametrize("folder", ["annotations", "."])
def test_masks_in_the_folder_of_the_images_are_no_images(photos: Path, folder: str) -> None:
    for name, size in SIZES.items():
        file = photos / folder / name.replace(".jpg", ".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", size, 3).save(file)
    build(photos, photos / folder)
    assert records_of(photos).keys() == SIZES.keys()


def test_annotations_in_the_folder_of_the_images(photos: Path) -> None:
    for name in SIZES:
        (photos / name).with_suffix(".txt").write_text("0 0.5 0.5 0.2 0.4\n")
    (photos / "classes.txt").write_text("cat\n")
    build(photos, photos, annotations_format="yolo")
    records = records_of(photos)
    assert records.keys() == SIZES.keys()
    assert all(len(record["objects"]["label"]) == 1 for record in records.values())


def test_a_column_may_be_called_annotations(photos: Path, tmp_path: Path) -> None:
    rows = "".join(f"{name},said of {name}\n" for name in SIZES)
    (tmp_path / "table.csv").write_text(f"path,annotations\n{rows}")
    options: dict[str, Any] = {"labels": str(tmp_path / "table.csv"), "no_labels": True}
    out = str(photos.parent / "set")
    preprocess(
        ImageOptions(str(photos), out, keep_columns="annotations", split="train=1", **options)
    )
    for name, record in records_of(photos).items():
        assert record["annotations"] == f"said of {name}"


@pytest.mark.parametrize("use", ["caption", "mask"])
def test_a_column_is_not_taken_twice(photos: Path, tmp_path: Path, use: str) -> None:
    with pytest.raises(UsageError, match="names 'x' too"):
        ImageOptions(str(photos), str(tmp_path / "set"), keep_columns="x", **{f"{use}_column": "x"})
