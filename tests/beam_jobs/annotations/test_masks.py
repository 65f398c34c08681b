"""Masks of classes, in files or in a column."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from beam_jobs.options import ImageOptions
from beam_jobs.run import preprocess
from shard_format import InputError, UsageError, load_manifest
from tests.beam_jobs.annotations.annotated import SIZES, blob, build, quarantined, records_of


def write_masks(folder: Path) -> dict[str, npt.NDArray[np.uint8]]:
    masks = {}
    for seed, (name, (width, height)) in enumerate(SIZES.items()):
        mask = blob(width, height, seed) * 7 + blob(width, height, seed + 50) * 11
        file = folder / name.replace(".jpg", ".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(mask)
        if seed % 2:  # as of Pascal VOC: numbers of colours
            image = image.convert("P")
            image.putdata(mask.ravel().tolist())
        image.save(file)
        masks[name] = mask
    return masks


def test_masks_keep_their_classes(photos: Path, tmp_path: Path) -> None:
    masks = write_masks(tmp_path / "masks")
    build(photos, tmp_path / "masks")
    records = records_of(photos)
    for name, mask in masks.items():
        assert np.array_equal(records[name]["segmentation_mask"][..., 0], mask)
    manifest = load_manifest(photos.parent / "set")
    assert not manifest.schema.labels


@pytest.mark.parametrize("resize", ["shorter:15", "crop:16x16", "pad:64x64"])
def test_resized_masks_invent_no_class(photos: Path, tmp_path: Path, resize: str) -> None:
    masks = write_masks(tmp_path / "masks")
    build(photos, tmp_path / "masks", resize=resize, enlarge=True)
    for name, record in records_of(photos).items():
        mask = record["segmentation_mask"]
        assert mask.shape == (*record["image"].shape[:2], 1)
        others = {255} if resize.startswith("pad") else set()
        assert set(np.unique(mask)) <= set(np.unique(masks[name])) | others


def test_masks_that_cannot_be_used(photos: Path, tmp_path: Path) -> None:
    write_masks(tmp_path / "masks")
    (tmp_path / "masks/a/1.png").write_bytes(b"no png")
    Image.new("RGB", SIZES["a/2.jpg"]).save(tmp_path / "masks/a/2.png")
    Image.new("L", (5, 5)).save(tmp_path / "masks/b/3.png")
    (tmp_path / "masks/b/4.png").unlink()
    with pytest.raises(InputError, match="All 4 records were rejected"):
        build(photos, tmp_path / "masks")
    done = build(photos, tmp_path / "masks", keep_empty=True)
    assert done.manifest.ledger.kept == 0
    assert quarantined(photos) == {
        "a/1.jpg": "bad-mask",
        "a/2.jpg": "bad-mask",
        "b/3.jpg": "annotated-size",
        "b/4.jpg": "no-row",
    }


def png(mask: npt.NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(mask).save(file, "PNG")
    return file.getvalue()


def write_parquet(folder: Path, images: dict[str, bytes], masks: dict[str, bytes]) -> str:
    """As Hugging Face has them: structs of bytes and a path."""
    table = {
        "name": list(images),
        "image": [{"bytes": data, "path": None} for data in images.values()],
        "annotation": [{"bytes": masks[name], "path": None} for name in images],
    }
    pq.write_table(pa.table(table), folder / "table.parquet")
    return str(folder / "table.parquet")


def write_tfrecord(folder: Path, images: dict[str, bytes], masks: dict[str, bytes]) -> str:
    with tf.io.TFRecordWriter(str(folder / "table.tfrecord")) as writer:
        for name, data in images.items():
            example = tf.train.Example()
            values = {"name": name.encode(), "image": data, "annotation": masks[name]}
            for key, value in values.items():
                example.features.feature[key].bytes_list.value.append(value)
            writer.write(example.SerializeToString())
    return str(folder / "table.tfrecord")


@pytest.mark.parametrize("resize", ["none", "crop:16x16", "pad:64x64"])
@pytest.mark.parametrize("write", [write_parquet, write_tfrecord])
def test_masks_of_a_column_are_those_of_files(
    photos: Path, tmp_path: Path, resize: str, write: Callable[..., str]
) -> None:
    masks = write_masks(tmp_path / "masks")
    build(photos, tmp_path / "masks", resize=resize)
    expected = {name: one["segmentation_mask"] for name, one in records_of(photos).items()}
    images = {name: (photos / name).read_bytes() for name in SIZES}
    source = write(tmp_path, images, {name: png(mask) for name, mask in masks.items()})
    options: dict[str, Any] = {
        "mask_column": "annotation",
        "keep_columns": "name",
        "resize": resize,
    }
    options |= {"no_labels": True, "split": "train=1", "overwrite": True, "no_report": True}
    preprocess(ImageOptions((source,), str(photos.parent / "set"), **options))
    records = records_of(photos).values()
    assert len(records) == len(SIZES)
    for record in records:
        assert np.array_equal(record["segmentation_mask"], expected[record["name"]])
        assert "annotation" not in record


def test_masks_of_a_column_that_cannot_be_used(photos: Path, tmp_path: Path) -> None:
    images = {name: (photos / name).read_bytes() for name in SIZES}
    colours = io.BytesIO()
    Image.new("RGB", SIZES["a/1.jpg"]).save(colours, "PNG")
    good = [png(blob(*size, 0)) for size in SIZES.values()]
    masks = dict(zip(SIZES, [colours.getvalue(), good[0], b"no png", good[3]], strict=True))
    options: dict[str, Any] = {"mask_column": "annotation", "no_labels": True, "split": "train=1"}
    source = write_parquet(tmp_path, images, masks)
    done = preprocess(ImageOptions((source,), str(photos.parent / "set"), **options))
    assert done.manifest.ledger.kept == 1
    assert sorted(quarantined(photos).values()) == ["annotated-size", "bad-mask", "bad-value"]


def test_masks_of_a_column_and_of_files_are_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--annotations"):
        build(photos, tmp_path / "masks", mask_column="mask")
