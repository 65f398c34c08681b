"""Shard sets made of numpy images: label = record number, mean colour = its last three digits.

With many labels, a record has its own number and the next smaller ones down to a multiple of three
(none at a multiple of five); see `labels_of`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.images.encode import ENCODERS, encode_jpeg
from shard_format import Feature, Schema
from tests.fixtures.sets import Record, write_shard_set

STATISTICS = (pa.field("width", pa.int32()), pa.field("height", pa.int32()))
MakeSet = Callable[..., Path]


def color_of(number: int) -> tuple[int, int, int]:
    """Digits are 25 grey levels apart, far beyond what JPEG blurs."""
    return tuple(10 + 25 * (number // power % 10) for power in (100, 10, 1))  # type: ignore[return-value]


def labels_of(number: int) -> list[int]:
    """Between no and three labels."""
    return [] if number % 5 == 0 else list(range(number - number % 3, number + 1))


def image(number: int, height: int, width: int, encoding: str) -> bytes:
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = color_of(number)
    return ENCODERS.get(encoding, encode_jpeg)(pixels, 90)


def write_set(
    directory: Path,
    splits: dict[str, tuple[int, ...]],
    sizes: tuple[tuple[int, int], ...] = ((24, 32),),
    record_type: str = "image",
    encoding: str = "jpeg",
    labels: str = "one",
    statistics: dict[str, object] | None = None,
) -> Path:
    """A shard set in `directory`.

    Args:
        directory: Where; made here.
        splits: Records of every shard, by split. Record numbers run on from split to split.
        sizes: (height, width) of the images, taken in turn.
        record_type: Record type of the schema.
        encoding: What the schema says of the images; one that is not known stores JPEG.
        labels: "one", "many" or "none".
        statistics: Statistics of every split.
    """
    total = sum(sum(counts) for counts in splits.values())
    names = tuple(f"class{number}" for number in range(total))
    features = [Feature("id", "text"), Feature("image", "image", (-1, -1, 3), encoding)]
    if encoding == "raw":
        features += [Feature("height", "int64"), Feature("width", "int64")]
    if labels != "none":
        shape = (-1,) if labels == "many" else ()
        features.append(Feature("label", "class_label", shape, "", names, late=True))

    def record(number: int) -> Record:
        height, width = sizes[number % len(sizes)]
        row = {"record_id": f"r{number}", "width": width, "height": height}
        values = {
            "id": f"r{number}",
            "image": image(number, height, width, encoding),
            "height": height,
            "width": width,
            "label": labels_of(number) if labels == "many" else number,
        }
        return values, row

    numbers = itertools.count()
    write_shard_set(
        directory,
        Schema(record_type, tuple(features)),
        {
            split: [[record(next(numbers)) for _ in range(count)] for count in counts]
            for split, counts in splits.items()
        },
        STATISTICS,
        dict.fromkeys(splits, statistics or {}),
    )
    return directory


@pytest.fixture
def make_set(tmp_path: Path) -> MakeSet:
    def make(splits: dict[str, tuple[int, ...]], **options: object) -> Path:
        return write_set(tmp_path / "set", splits, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """110 training records in uneven shards, 21 for the test. Read only."""
    directory = tmp_path_factory.mktemp("tiny") / "set"
    return write_set(directory, {"train": (50, 41, 1, 18), "test": (11, 10)})


@pytest.fixture
def small_windows() -> Iterator[None]:
    """4 streams, chunks of 4 and windows of 16 records: the tiny set has several of each."""
    with (
        mock.patch("reader.order.geometry.CHUNK_RECORDS", 4),
        mock.patch("reader.order.geometry.WINDOW_RECORDS", 16),
        mock.patch("reader.order.geometry.STREAMS", 4),
        mock.patch("reader.order.geometry.BUCKET_STREAMS", 4),
    ):
        yield


@pytest.fixture(autouse=True, scope="session")
def graphs(unoptimized_graphs: None) -> None:
    """Every test here has them."""
