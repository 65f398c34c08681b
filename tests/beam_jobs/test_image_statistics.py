"""Sums over channels are exact, and their merge does not depend on order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs import bounds
from beam_jobs.images.statistics import NOT_COUNTED, PIXEL_FIELDS, count_pixels, merge_pixels
from shard_format import open_index

SCHEMA = pa.schema(PIXEL_FIELDS)


def expected(pixels):
    """[n, 3] in int64."""
    wide = pixels.reshape(-1, 3).astype(np.int64)
    return {
        "pixel_count": len(wide),
        "pixel_sum": wide.sum(axis=0).tolist(),
        "pixel_sum_squares": (wide * wide).sum(axis=0).tolist(),
        "pixel_min": wide.min(axis=0).tolist(),
        "pixel_max": wide.max(axis=0).tolist(),
    }


def counted(image):
    """The pixels that are counted."""
    if min(image.shape[:2]) < 32:
        return image
    return image[::4, : image.shape[1] // 4 * 4 : 4]


@pytest.mark.parametrize(
    ("height", "width"),
    [(1, 1), (31, 500), (500, 31), (32, 32), (33, 35), (256, 341), (400, 533), (3000, 4001)],
)
def test_sums_are_exact(height, width):
    generator = np.random.default_rng(height)
    for low, high in ((0, 256), (250, 256), (0, 2), (255, 256)):
        image = generator.integers(low, high, (height, width, 3), np.uint8)
        assert count_pixels(image) == expected(counted(image))
        turned = image.transpose(1, 0, 2)  # not contiguous
        assert count_pixels(turned) == expected(counted(turned))


@pytest.mark.proof
def test_sums_of_the_largest_image_are_exact():
    """Nearly alike values are the hardest: the variance is a small difference of large numbers."""
    image = np.full((4 * 3500, 4 * 3100, 3), 254, np.uint8)
    image[::8, ::4] = 255
    image[0, 0] = (0, 1, 2)
    assert count_pixels(image) == expected(counted(image))


def columns_of(*tables):
    return lambda names: [table.select(names) for table in tables]


def table(images):
    return pa.Table.from_pylist([count_pixels(image) for image in images], schema=SCHEMA)


def test_the_merge_is_that_of_all_pixels():
    generator = np.random.default_rng(1)
    images = [
        generator.integers(low, high, (*generator.integers(20, 60, 2), 3), np.uint8)
        for low, high in ((0, 100), (90, 110), (200, 256), (7, 8))
        for _ in range(10)
    ]
    pixels = np.concatenate([counted(image).reshape(-1, 3) for image in images]).astype(np.float64)
    merged = merge_pixels(columns_of(table(images)))
    assert merged["count"] == len(pixels)
    np.testing.assert_allclose(merged["mean"], pixels.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(merged["std"], pixels.std(axis=0), rtol=1e-11)
    assert merged["min"] == pixels.min(axis=0).tolist()
    assert merged["max"] == pixels.max(axis=0).tolist()


def test_the_merge_depends_neither_on_order_nor_on_chunks():
    generator = np.random.default_rng(2)
    whole = table([generator.integers(0, 256, (9, 9, 3), np.uint8) for _ in range(50)])
    merged = merge_pixels(columns_of(whole))
    for _ in range(3):
        shuffled = whole.take(pa.array(generator.permutation(50)))
        parts = [shuffled.slice(0, 7), shuffled.slice(7, 1), shuffled.slice(8)]
        assert merge_pixels(columns_of(*parts)) == merged


def test_records_that_were_not_counted_are_left_out():
    rows = [count_pixels(np.full((8, 8, 3), value, np.uint8)) for value in (10, 20)]
    alone = merge_pixels(columns_of(pa.Table.from_pylist(rows, schema=SCHEMA)))
    mixed = [NOT_COUNTED, rows[0], NOT_COUNTED, rows[1], NOT_COUNTED]
    assert merge_pixels(columns_of(pa.Table.from_pylist(mixed, schema=SCHEMA))) == alone
    assert alone == {
        "count": 128,
        "mean": [15.0] * 3,
        "std": [5.0] * 3,
        "min": [10] * 3,
        "max": [20] * 3,
    }
    for nothing in ([], [NOT_COUNTED] * 3):
        assert merge_pixels(columns_of(pa.Table.from_pylist(nothing, schema=SCHEMA))) == {}


def test_hundreds_of_millions_of_records_do_not_overflow(monkeypatch):
    monkeypatch.setattr(bounds, "SUMMARIZED_ROWS", 2)
    count = 10**12  # pixels a row, more than any image has
    squares = count * 255 * 255
    row = {
        "pixel_count": count,
        "pixel_sum": [count * 255] * 3,
        "pixel_sum_squares": [squares] * 3,
        "pixel_min": [255] * 3,
        "pixel_max": [255] * 3,
    }
    rows = 400
    assert rows * squares > 2**63
    merged = merge_pixels(columns_of(pa.Table.from_pylist([row] * rows, schema=SCHEMA)))
    assert merged["mean"] == [255.0] * 3 and merged["std"] == [0.0] * 3


def test_a_build_counts_every_image(build, samples, tmp_path):
    """Resized pixels are counted before they are encoded, in the same way for every encoding."""
    merged = []
    for encoding in ("jpeg", "raw"):
        build(samples, tmp_path / encoding, encoding=encoding)
        index = open_index(tmp_path / encoding / "index" / "train.arrow")
        assert min(index["pixel_count"].to_pylist()) > 0
        merged.append(merge_pixels(columns_of(index)))
    assert merged[0] == merged[1]
    assert all(0 < value < 255 for value in merged[0]["mean"] + merged[0]["std"])
