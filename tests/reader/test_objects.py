"""Objects and masks follow their images: the referee is a white box in the image itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pycocotools import mask as coco_mask

import reader
from beam_jobs import ImageOptions, preprocess
from reader.record_types.objects import mask_of
from reader.transforms import (
    CenterCrop,
    HorizontalFlip,
    Mixup,
    RandAugment,
    RandomResizedCrop,
    Rotation,
    Scale,
    VerticalFlip,
)
from shard_format import DamageError, UsageError

COUNT, SIZE = 12, 96


def white_box(number: int) -> tuple[np.ndarray, list[int]]:
    """(pixels, [left, top, width, height]) of an image with a white box somewhere."""
    generator = np.random.default_rng(number)
    height, width = generator.integers(60, 120, 2).tolist()
    wide, high = generator.integers(16, 40, 2).tolist()
    left, top = int(generator.integers(0, width - wide)), int(generator.integers(0, height - high))
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[top : top + high, left : left + wide] = 255
    return pixels, [left, top, wide, high]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same images with objects, and with masks."""
    folder = tmp_path_factory.mktemp("objects")
    photos, masks = folder / "photos", folder / "numbers"
    photos.mkdir()
    masks.mkdir()
    images, annotations = [], []
    for number in range(COUNT):
        pixels, box = white_box(number)
        cv2.imwrite(str(photos / f"{number}.png"), pixels)
        inside = (pixels[..., 0] > 0).astype(np.uint8)
        cv2.imwrite(str(masks / f"{number}.png"), inside * 7)
        coded = coco_mask.encode(np.asfortranarray(inside))
        runs = {"size": list(coded["size"]), "counts": coded["counts"].decode()}
        height, width = inside.shape
        name = f"{number}.png"
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        annotations.append(
            {
                "id": number,
                "image_id": number,
                "category_id": 1,
                "bbox": box,
                "area": box[2] * box[3],
                "segmentation": runs,
            }
        )
    content = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "box"}],
    }
    (folder / "boxes.json").write_text(json.dumps(content))
    own: dict[str, Any] = {
        "split": "train=1",
        "resize": "none",
        "encoding": "png",
        "workers": 1,
        "no_report": True,
        "no_labels": True,
        "dedup": "off",
    }
    sources = {"objects": folder / "boxes.json", "masks": masks}
    for name, annotated in sources.items():
        options = {**own, "annotations": str(annotated)}
        preprocess(ImageOptions((str(photos),), str(folder / name), **options))
    return {name: folder / name for name in sources}


def load(directory: Path, augment: Any, **options: Any) -> reader.Stream:
    own = {"batch_size": COUNT, "epochs": 1, "image_size": SIZE, "cache": "off"}
    return reader.load(directory, augment=augment, **{**own, **options})


AUGMENTS: dict[str, Callable[[], Any]] = {
    "none": lambda: "none",
    "center": lambda: [CenterCrop(0.8)],
    "crop": lambda: [RandomResizedCrop(0.5)],
    "horizontal": lambda: [CenterCrop(), HorizontalFlip(1.0)],
    "vertical": lambda: [CenterCrop(), VerticalFlip(1.0)],
    "flips": lambda: ["center_crop", "horizontal_flip", "vertical_flip"],
    "rotation": lambda: [CenterCrop(), Rotation(25.0, fill=0.0)],
    "scale": lambda: [CenterCrop(), Scale(0.7, 1.4, fill=0.0)],
    "all": lambda: [RandomResizedCrop(0.4), HorizontalFlip(), Scale(fill=0.0), Rotation(fill=0.0)],
    "colours": lambda: ["center_crop", "horizontal_flip", "brightness", "contrast", "hue"],
    "standard": lambda: "standard",
}


def bright(image: np.ndarray) -> np.ndarray:
    """Where the white box is; colours were changed by at most half."""
    grey = image.astype(np.float32).mean(axis=2)
    return grey > (grey.max() + grey.min()) / 2


@pytest.mark.parametrize("augment", AUGMENTS)
def test_boxes_and_run_lengths_are_where_the_pixels_are(
    sets: dict[str, Path], augment: str
) -> None:
    stream = load(sets["objects"], AUGMENTS[augment](), features=("objects",))
    seen = 0
    for inputs in stream:
        objects = inputs["objects"]
        for row, image in enumerate(inputs["image"]):
            boxes = objects["bbox"][row] * SIZE
            masks = objects["segmentation"][row]
            assert len(boxes) == len(masks) == len(objects["label"][row])
            if image.max() - float(image.min()) < 60:
                continue  # the crop shows nothing of the box, or nothing else
            shown = bright(image)
            if shown.sum() < 30 or not len(boxes):
                assert shown.sum() < 30 or image.min() > 0
                continue
            seen += 1
            rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
            expected = np.array([rows[0], columns[0], rows[-1] + 1, columns[-1] + 1])
            outside = (boxes[0] - expected) * (1, 1, -1, -1)
            assert outside.max() <= 2.0, augment  # bilinear edges are half a pixel wide
            if augment not in ("rotation", "all"):  # of a turned box, it is around the corners
                assert outside.min() >= -2.0, augment
            edge = 2 * (len(rows) + len(columns)) * 2
            assert (masks[0].astype(bool) ^ shown).sum() <= edge
    assert seen >= COUNT // 2


@pytest.mark.parametrize("augment", AUGMENTS)
def test_masks_are_where_the_pixels_are_and_invent_no_class(
    sets: dict[str, Path], augment: str
) -> None:
    stream = load(sets["masks"], AUGMENTS[augment](), features=("segmentation_mask",))
    for inputs in stream:
        masks = inputs["segmentation_mask"]
        assert masks.shape == (COUNT, SIZE, SIZE, 1) and masks.dtype == np.uint8
        assert set(np.unique(masks)) <= {0, 7, 255}
        for image, mask in zip(inputs["image"], masks[..., 0], strict=True):
            if image.max() - float(image.min()) < 60:
                continue
            difference = (mask == 7) ^ bright(image)
            assert difference.sum() <= 0.06 * SIZE * SIZE
            wide = cv2.erode(difference.astype(np.uint8), np.ones((5, 5)))
            assert not wide.any()  # along edges alone


def test_the_same_objects_whatever_the_batch_is(sets: dict[str, Path]) -> None:
    whole = load(sets["objects"], "standard", features=("objects", "id"), seed=3)
    parts = load(sets["objects"], "standard", features=("objects", "id"), seed=3, batch_size=5)
    boxes = [
        {name: box for name, box in zip(one["id"], one["objects"]["bbox"], strict=True)}
        for one in (*whole, *parts)
    ]
    joined = {name: box for one in boxes[1:] for name, box in one.items()}
    assert all(np.array_equal(box, joined[name]) for name, box in boxes[0].items())


def test_areas_shrink_with_what_is_seen(sets: dict[str, Path]) -> None:
    for inputs in load(sets["objects"], [CenterCrop()], features=("objects",)):
        for boxes, areas in zip(inputs["objects"]["bbox"], inputs["objects"]["area"], strict=True):
            sides = (boxes[:, 2:] - boxes[:, :2]) * SIZE
            assert np.allclose(sides.prod(axis=1), areas, rtol=1e-3)


def test_a_small_rest_goes(sets: dict[str, Path]) -> None:
    counts = []
    for least in (0.0, 0.9):
        stream = load(
            sets["objects"], [RandomResizedCrop(0.2)], features=("objects",), min_visible=least
        )
        counts.append(sum(len(one) for batch in stream for one in batch["objects"]["bbox"]))
    assert counts[1] < counts[0]


def test_lists_are_filled_up_behind_moves(sets: dict[str, Path]) -> None:
    stream = load(sets["objects"], "standard", features=("objects",), list_size=3)
    (inputs,) = list(stream)
    objects = inputs["objects"]
    assert objects["bbox"].shape == (COUNT, 3, 4) and objects["label"].shape == (COUNT, 3)
    assert objects["segmentation"].shape == (COUNT, 3, SIZE, SIZE)
    assert ((objects["label"] >= 0).sum(axis=1) == objects["count"]).all()
    spec = stream.dataset.element_spec["objects"]
    assert spec["segmentation"].shape.as_list() == [None, 3, SIZE, SIZE]


def test_without_a_size_objects_are_as_stored(sets: dict[str, Path]) -> None:
    records = {one["id"]: one for one in reader.random_access(sets["objects"], "train")}
    options = {"image_size": None, "batch_size": 1, "features": ("objects", "id")}
    for inputs in load(sets["objects"], "none", **options):
        record = records[inputs["id"][0].decode()]
        assert np.array_equal(inputs["objects"]["bbox"][0], record["objects"]["bbox"])
        assert (
            inputs["objects"]["segmentation"][0][0].decode()
            == (record["objects"]["segmentation"][0])
        )


class Mirror:
    """A transform of one's own, which says where it moves pixels."""

    stage = "decoded"
    num_random = 0

    def arrays(self, example: Any, random: Any) -> Any:
        return {**example, "image": np.ascontiguousarray(example["image"][:, ::-1])}

    __call__ = arrays

    def places(self, random: Any, size: tuple[int, int]) -> tuple[float, ...]:
        return (-1, 0, size[1], 0, 1, 0)


def test_a_transform_of_ones_own_may_say_where_pixels_go(sets: dict[str, Path]) -> None:
    mine = next(iter(load(sets["objects"], [CenterCrop(), Mirror()], features=("objects",))))
    flip = [CenterCrop(), HorizontalFlip(1.0)]
    ours = next(iter(load(sets["objects"], flip, features=("objects",))))
    for one, other in zip(mine["objects"]["bbox"], ours["objects"]["bbox"], strict=True):
        assert np.array_equal(one, other)


class Unknown:
    """A transform that does not say it."""

    stage = "decoded"
    num_random = 0

    def arrays(self, example: Any, random: Any) -> Any:
        return example

    __call__ = arrays


@pytest.mark.parametrize("transform", [RandAugment(), Mixup(), Unknown()])
def test_transforms_that_do_not_say_where_pixels_go_are_refused(
    sets: dict[str, Path], transform: Any
) -> None:
    with pytest.raises(UsageError, match="does not say where it moves objects"):
        load(sets["objects"], [CenterCrop(), transform], features=("objects",))


def test_objects_of_images_that_are_not_resized_cannot_be_moved(sets: dict[str, Path]) -> None:
    options = {"image_size": None, "batch_size": 1, "features": ("objects",)}
    with pytest.raises(UsageError, match="HorizontalFlip in augment moves objects"):
        load(sets["objects"], [HorizontalFlip()], **options)


@pytest.mark.parametrize("name", ["objects/segmentation", "objects/label"])
def test_objects_without_their_boxes_are_refused(sets: dict[str, Path], name: str) -> None:
    """The boxes tell what a crop cut off."""
    with pytest.raises(UsageError, match="Add 'objects/bbox'"):
        load(sets["objects"], "standard", features=(name,))
    stored = reader.load(sets["objects"], batch_size=1, epochs=1, features=(name,), image_size=None)
    assert len(next(iter(stored))["objects"]) == 1


def test_run_lengths_are_read_as_pycocotools_does() -> None:
    generator = np.random.default_rng(0)
    for share in (0.0, 0.01, 0.5, 1.0):
        mask = (generator.random((37, 53)) < share).astype(np.uint8)
        counts = coco_mask.encode(np.asfortranarray(mask))["counts"]
        assert np.array_equal(mask_of(counts, (37, 53)), mask)
    with pytest.raises(DamageError, match="not those of their image"):
        mask_of(counts, (37, 54))
    assert not mask_of(b"", (3, 4)).any()
