"""Images with annotations, and sets that are built of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import simplejpeg
from PIL import Image
from pycocotools import mask as coco_mask

import reader
from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from shard_format import verify

SIZES = {"a/1.jpg": (60, 40), "a/2.jpg": (33, 57), "b/3.jpg": (48, 48), "b/4.jpg": (20, 90)}
CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}, {"id": 9, "name": "bird"}]


def photo(size: tuple[int, int], seed: int, orientation: int = 1) -> bytes:
    """A JPEG of (width, height) pixels, as they are stored."""
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    if orientation == 1:
        return simplejpeg.encode_jpeg(pixels, 90)
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(file, "JPEG", quality=90, exif=exif)
    return file.getvalue()


def build(photos: Path, annotations: Path, **options: Any) -> Any:
    own: dict[str, Any] = {
        "split": "train=1",
        "workers": 1,
        "no_report": True,
        "resize": "none",
        "annotations": str(annotations),
    }
    return preprocess(ImageOptions((str(photos),), str(photos.parent / "set"), **(own | options)))


def records_of(photos: Path) -> dict[str, dict[str, Any]]:
    directory = photos.parent / "set"
    assert not verify(directory)[1]
    return {one["id"]: one for one in reader.random_access(directory, "train")}


def quarantined(photos: Path) -> dict[str, str]:
    files = sorted((photos.parent / "set/quarantine").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return {row["record_id"]: row["reason"] for row in rows}


def coco_of(objects: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    images = [
        {"id": number, "file_name": name, "width": size[0], "height": size[1]}
        for number, (name, size) in enumerate(SIZES.items(), 100)
    ]
    annotations = [{"id": number, "iscrowd": 0, **one} for number, one in enumerate(objects, 1)]
    # Lists in another order than they are needed in.
    whole = {"info": {}, "annotations": annotations, "images": images, "categories": CATEGORIES}
    return whole | changes


def run_lengths(mask: npt.NDArray[np.uint8]) -> dict[str, Any]:
    coded = coco_mask.encode(np.asfortranarray(mask))
    return {"size": list(coded["size"]), "counts": coded["counts"].decode()}


def counts_of(coded: dict[str, Any]) -> str:
    counts = coded["counts"]
    return str(counts.decode() if isinstance(counts, bytes) else counts)


def blob(width: int, height: int, seed: int) -> npt.NDArray[np.uint8]:
    noise = np.random.default_rng(seed).random((height, width)).astype(np.float32)
    return (cv2.GaussianBlur(noise, (9, 9), 3) > 0.5).astype(np.uint8)


OBJECTS: list[dict[str, Any]] = [
    {
        "image_id": 100,
        "category_id": 7,
        "bbox": [10.25, 5.5, 20.5, 10.125],
        "area": 180.0625,
        "segmentation": [[10.25, 5.5, 30.75, 5.5, 30.75, 15.625, 20.0, 12.0]],
    },
    {
        "image_id": 100,
        "category_id": 3,
        "bbox": [0, 0, 60, 40],
        "area": 700,
        "iscrowd": 1,
        "segmentation": run_lengths(blob(60, 40, 1)),
    },
    {
        "image_id": 100,
        "category_id": 7,
        "bbox": [1, 1, 3, 3],
        "area": 9,
        "segmentation": [[1, 1, 4, 1, 4, 4], [1, 1, 1, 4, 4, 4]],
    },
    {"image_id": 101, "category_id": 9, "bbox": [30, 50, 2.5, 6], "area": 15},
    {
        "image_id": 102,
        "category_id": 3,
        "bbox": [4, 6, 24, 30],
        "area": 500,
        "segmentation": {"size": [48, 48], "counts": [100, 20, 48 * 48 - 120]},
    },
]
