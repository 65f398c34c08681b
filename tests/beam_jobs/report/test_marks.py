"""Boxes and masks in the thumbnails of a report."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO

from beam_jobs.options import ImageOptions
from beam_jobs.report.marks import marked
from beam_jobs.report.sampling import ClassSample, ReportedSet
from beam_jobs.run import preprocess
from shard_format.example import Values

GREY = np.full((40, 60, 3), 100, np.uint8)


def test_a_box_is_around_its_object_in_the_color_of_its_class() -> None:
    values: dict[str, Values] = {
        "objects/bbox": [0.25, 0.5, 0.75, 1.0, 0.0, 0.0, 0.1, 0.1],
        "objects/label": [0, 1],
    }
    seen = marked(GREY, values)
    changed = (seen != GREY).any(axis=2)
    assert changed[:30, 29:].any() and not changed[12:27, 33:55].any()  # its inside is as it was
    assert (seen[10, 40] == seen[29, 59]).all()
    assert not (seen[10, 40] == seen[0, 0]).all()  # of another class
    assert (GREY == 100).all()


def test_a_mask_is_blended_and_its_background_is_not() -> None:
    mask = np.zeros((80, 120), np.uint8)
    mask[:40], mask[40:60] = 2, 255
    values: dict[str, Values] = {"segmentation_mask": [cv2.imencode(".png", mask)[1].tobytes()]}
    seen = marked(GREY, values)
    assert (seen[:20] != 100).any(axis=2).all() and (seen[20:] == 100).all()
    assert (seen[:20] == seen[0, 0]).all()


@pytest.mark.parametrize(
    "values",
    [
        {"objects/bbox": [0.5, 0.5, 0.1], "objects/label": [0]},
        {"objects/bbox": [b"a"], "objects/label": [0]},
        {"objects/bbox": [0.0, 0.0, 1.0, 1.0]},
        {"segmentation_mask": [b"no image"]},
        {"objects/bbox": [float("nan")] * 4, "objects/label": [0]},
        {"objects/bbox": [0.9, 0.9, 0.1, 0.1], "objects/label": [-1]},
    ],
)
def test_what_other_software_wrote_there_hides_no_image(values: dict[str, Values]) -> None:
    sample = ClassSample("any", 3)
    sample.add("id", GREY, values, [])
    assert str(sample.shown[0].preview).startswith("data:image/jpeg")


def test_means_have_no_marks() -> None:
    means = []
    for values in ({}, {"objects/bbox": [0.2, 0.2, 0.8, 0.8], "objects/label": [0]}):
        sample = ClassSample("any", 3)
        sample.add("id", GREY, values, [])
        means.append(sample.mean_image())
    assert means[0] == means[1]


def test_images_are_shown_under_the_classes_of_their_objects(
    repository: Path, tmp_path: Path
) -> None:
    """Classes of objects have the order of the categories; those of images are sorted."""
    photos = repository / "samples" / "objects"
    options = ImageOptions(
        (str(photos / "photos"),),
        str(tmp_path / "set"),
        annotations=str(photos / "instances.json"),
        workers=1,
    )
    preprocess(options)
    reported = ReportedSet(tmp_path / "set")
    annotated = COCO(str(photos / "instances.json"))
    ids = {one["file_name"]: one["id"] for one in annotated.dataset["images"]}
    assert {one.name for one in reported.class_samples} == {"arrow", "card", "flag"}
    for sample in reported.class_samples:
        (category,) = annotated.getCatIds(catNms=[sample.name])
        inside = set(annotated.getImgIds(catIds=[category]))
        assert sample.shown
        assert all(ids[record.record_id] in inside for record in sample.shown)
