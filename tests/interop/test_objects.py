"""Torchvision, Datumaro and mlcroissant as referees of objects and masks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO

import reader
from beam_jobs import ImageOptions, preprocess
from reader.record_types.objects import MovedObjects
from reader.transforms import HorizontalFlip, VerticalFlip
from reader.transforms.augmentation import Steps

pytestmark = pytest.mark.interop
SIZE = 48
FLIPS = Steps((HorizontalFlip(0.5), VerticalFlip(0.5)))
# The type, class and box of every annotation, by image.
DATUMARO = """
import json, sys
import datumaro

dataset = datumaro.Dataset.import_from(sys.argv[1], "coco")
labels = dataset.categories()[datumaro.AnnotationType.label]
images = {
    item.id: [[one.type.name, labels[one.label].name, *one.get_bbox()] for one in item.annotations]
    for item in dataset
}
print(json.dumps(images, default=float))
"""


@st.composite
def moved_images(draw: st.DrawFn) -> dict[str, Any]:
    height, width = draw(st.integers(8, 90)), draw(st.integers(8, 90))
    high, wide = draw(st.integers(4, height)), draw(st.integers(4, width))
    top, left = draw(st.integers(0, height - high)), draw(st.integers(0, width - wide))
    seed = draw(st.integers(0, 1 << 30))
    return {
        "size": (height, width),
        "crop": (top, left, high, wide),
        "flips": (draw(st.booleans()), draw(st.booleans())),
        "corners": np.sort(np.random.default_rng(seed).uniform(0, 1, (5, 2, 2)), axis=1),
        "mask": np.random.default_rng(seed).integers(0, 9, (height, width, 1), np.uint8),
    }


@given(moved_images())
@settings(max_examples=200, deadline=None)
def test_boxes_and_masks_move_as_those_of_torchvision(image: dict[str, Any]) -> None:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import InterpolationMode, functional

    (height, width), (top, left, high, wide) = image["size"], image["crop"]
    across, upside = image["flips"]
    places = image["corners"] * (height, width)  # [objects, least and greatest, y and x]
    xyxy = places[..., ::-1].reshape(-1, 4)
    boxes: Any = tv_tensors.BoundingBoxes(
        torch.tensor(xyxy.copy()), format="XYXY", canvas_size=(height, width)
    )
    mask: Any = tv_tensors.Mask(torch.tensor(image["mask"][..., 0])[None])
    boxes, mask = (functional.crop(one, top, left, high, wide) for one in (boxes, mask))
    boxes = functional.resize(boxes, [SIZE, SIZE])
    # The pixel at the middle, which Mask has no choice of.
    mask = functional.resize(
        tv_tensors.Image(mask), [SIZE, SIZE], interpolation=InterpolationMode.NEAREST_EXACT
    )
    for wanted, flip in (
        (across, functional.horizontal_flip),
        (upside, functional.vertical_flip),
    ):
        boxes, mask = (flip(one) if wanted else one for one in (boxes, mask))
    expected = functional.clamp_bounding_boxes(boxes).numpy()

    stored = (image["corners"].reshape(-1, 4)).astype(np.float32)
    random = np.array([[0.0 if wanted else 0.9 for wanted in image["flips"]]], np.float32)
    moved = MovedObjects(FLIPS, SIZE, 0.0).moved(
        {
            "objects/bbox": [stored],
            "objects/label": [np.arange(len(stored))],
            "segmentation_mask": [image["mask"]],
        },
        np.array([[height, width]], np.int32),
        np.array([[top, left, high, wide]], np.int32),
        random,
    )
    (kept,), (seen,) = moved["objects/label"], moved["objects/bbox"]
    areas = (expected[:, 2:] - expected[:, :2]).prod(axis=1)
    assert set(np.flatnonzero(areas > 1e-3)) <= set(kept.tolist())
    assert np.allclose(seen[:, [1, 0, 3, 2]] * SIZE, expected[kept], atol=1e-3)
    assert (moved["segmentation_mask"][0][..., 0] == mask[0].numpy()).all()


@pytest.fixture(scope="module")
def objects_set(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    photos = repository / "samples" / "objects"
    out = tmp_path_factory.mktemp("objects") / "set"
    options: dict[str, Any] = {"annotations": str(photos / "instances.json"), "resize": "none"}
    preprocess(ImageOptions((str(photos / "photos"),), str(out), split="train=1", **options))
    return out


def test_datumaro_reads_an_export(objects_set: Path, repository: Path, tmp_path: Path) -> None:
    reader.export_annotations(objects_set, tmp_path / "coco", images=True)
    python = repository / ".peers" / "annotations" / "bin" / "python"
    command = [str(python), "-c", DATUMARO, str(tmp_path / "coco")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    source = COCO(str(repository / "samples" / "objects" / "instances.json"))
    assert len(seen) == len(source.imgs) == 60
    for image in source.loadImgs(source.getImgIds()):
        annotations = source.loadAnns(source.getAnnIds(image["id"]))
        expected = sorted(
            (source.cats[one["category_id"]]["name"], one["bbox"]) for one in annotations
        )
        for kind, tolerance in (("bbox", 0.01), ("mask", 1.0)):  # masks are of whole pixels
            own = [one for one in seen[Path(image["file_name"]).stem] if one[0] == kind]
            read = sorted((name, box) for _, name, *box in own)
            assert [name for name, _ in read] == [name for name, _ in expected]
            boxes, right = ([box for _, box in one] for one in (read, expected))
            assert np.allclose(boxes, right, atol=tolerance)


def test_mlcroissant_reads_the_rows(objects_set: Path, repository: Path) -> None:
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=str(objects_set / "croissant.json"))
    source = COCO(str(repository / "samples" / "objects" / "instances.json"))
    expected = {one["file_name"]: set[bytes]() for one in source.imgs.values()}
    for one in source.anns.values():
        name = source.cats[one["category_id"]]["name"]
        expected[source.imgs[one["image_id"]]["file_name"]].add(name.encode())
    rows = list(dataset.records("train"))
    assert {row["train/record_id"].decode(): set(row["train/labels"]) for row in rows} == expected
