"""Shard sets made of numpy pictures: label = record number, mean colour = its last three digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
import simplejpeg

from shard_format import (
    Feature,
    IndexWriter,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    encode_example,
    file_sha256,
    frame,
    index_schema,
)
from shard_format.naming import MANIFEST, index_file, shard_file

STATISTICS = (pa.field("width", pa.int32()), pa.field("height", pa.int32()))
MakeSet = Callable[..., Path]


def color_of(number: int) -> tuple[int, int, int]:
    """Digits are 25 grey levels apart, far beyond what JPEG blurs."""
    return tuple(10 + 25 * (number // power % 10) for power in (100, 10, 1))  # type: ignore[return-value]


def picture(number: int, height: int, width: int) -> bytes:
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = color_of(number)
    return simplejpeg.encode_jpeg(pixels, quality=90)


def write_set(
    directory: Path,
    splits: dict[str, tuple[int, ...]],
    sizes: tuple[tuple[int, int], ...] = ((24, 32),),
    record_type: str = "image",
    encoding: str = "jpeg",
) -> Path:
    """A shard set in `directory`.

    Args:
        directory: Where; made here.
        splits: Records of every shard, by split. Record numbers run on from split to split.
        sizes: (height, width) of the pictures, taken in turn.
        record_type: Of the schema.
        encoding: What the schema says of the pictures.
    """
    total = sum(sum(counts) for counts in splits.values())
    names = tuple(f"class{number}" for number in range(total))
    schema = Schema(
        record_type,
        (
            Feature("id", "text"),
            Feature("image", "image", (-1, -1, 3), encoding),
            Feature("label", "class_label", (), "", names, late=True),
        ),
    )
    (directory / "index").mkdir(parents=True)
    infos, files, number = {}, {}, 0
    for split, counts in splits.items():
        shards = []
        with IndexWriter(directory / index_file(split), STATISTICS) as index:
            for shard, count in enumerate(counts):
                path = directory / shard_file("tiny", split, shard, len(counts))
                rows, offset = [], 0
                with path.open("wb") as file:
                    for _ in range(count):
                        height, width = sizes[number % len(sizes)]
                        values = {
                            "id": f"r{number}",
                            "image": picture(number, height, width),
                            "label": number,
                        }
                        framed = frame(encode_example(schema, values))
                        file.write(framed)
                        rows.append(
                            {
                                "shard": shard,
                                "offset": offset,
                                "length": len(framed),
                                "key": number,
                                "record_id": f"r{number}",
                                "label": number,
                                "fingerprint": number.to_bytes(16, "big"),
                                "width": width,
                                "height": height,
                            }
                        )
                        offset, number = offset + len(framed), number + 1
                index.append(pa.Table.from_pylist(rows, schema=index_schema(STATISTICS)))
                shards.append(ShardInfo(path.name, count, offset, file_sha256(path)))
        infos[split] = SplitInfo(tuple(shards), {})
        path = directory / index_file(split)
        files[index_file(split)] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
    ledger = Ledger(total, total, 0, 0, 0, {})
    manifest = Manifest("tiny", schema, infos, ledger, {}, files)
    (directory / MANIFEST).write_text(manifest.to_text())
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
    """Chunks of 4 and windows of 16 records: the tiny set has several of each."""
    with (
        mock.patch("reader.chunks.CHUNK_RECORDS", 4),
        mock.patch("reader.chunks.WINDOW_RECORDS", 16),
    ):
        yield
