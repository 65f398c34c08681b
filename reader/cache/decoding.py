"""A split with its images decoded, whole: as records in memory, or as a shard set on disk."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import simplejpeg

from foundation.machine import usable_cores
from reader.cache.pixels import PIXEL_COLUMNS, PIXELS, PLACE, Pixels, decoded, pixels_crc
from reader.records.open_split import OpenSplit
from shard_format import (
    DamageError,
    Feature,
    IndexWriter,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    encode_example,
    file_sha256,
    frame,
    index_schema,
)
from shard_format.naming import INDEX_DIR, MANIFEST, index_file

# Added to each stored record: names and values of its offset and of its two sides; and to its row.
_PLACE_BYTES = 152
_AHEAD = 4  # images being decoded or waiting, for each thread


def decoded_name() -> str:
    """What decoded copies are called; pixels may differ between versions of the decoders."""
    return f"decoded-simplejpeg{simplejpeg.__version__}-opencv{cv2.__version__}"


def decoded_schema(schema: Schema) -> Schema:
    """The schema of records whose pixels are in a separate file; other features are kept.

    The encoding of the image, whose bytes are empty, is one that no reader of sets knows.
    """
    places = {"height", "width", PLACE}
    features: list[Feature] = []
    for feature in schema.features:
        if feature.name in places:
            continue
        if feature.kind == "image":
            features.append(dataclasses.replace(feature, encoding="beside"))
            features += [Feature(name, "int64") for name in ("height", "width", PLACE)]
        else:
            features.append(feature)
    return Schema(schema.record_type, tuple(features))


def pixel_bytes(opened: OpenSplit) -> int:
    """Bytes of all pixels of a split, three for each.

    Raises:
        DamageError: The index has no sizes of images.
    """
    missing = {"width", "height"} - set(opened.index.column_names)
    if missing:
        raise DamageError(
            f"The index has no column {' and no column '.join(sorted(missing))} in {opened.where}. "
            'Build the set again, or pass cache_stage="stored".'
        )
    pixels = 0
    # Batch by batch: the product of two columns of a billion rows would be 8 GB.
    for batch in opened.index.select(["width", "height"]).to_batches():
        width, height = (np.asarray(column, np.int64) for column in batch.columns)
        pixels += int(width @ height)
    return 3 * pixels


def decoded_bytes(opened: OpenSplit, split: SplitInfo) -> int:
    """What a split takes when its images are decoded, at most: pixels, records and index.

    Raises:
        DamageError: The index has no sizes of images.
    """
    files = (opened.manifest.files[file] for file in opened.manifest.index_files(opened.name))
    index_bytes = sum(int(info["bytes"]) for info in files)
    record_bytes = index_bytes // max(1, split.records) + _PLACE_BYTES
    # Beside the image, a record holds little: its names, labels, and what was asked to be kept.
    return pixel_bytes(opened) + split.bytes + record_bytes * split.records


def decoded_records(
    records: Iterable[bytes], schema: Schema, keep: Callable[[Pixels], int], where: object
) -> Iterator[bytes]:
    """Records as `decoded_schema` has them, in order, decoded on all cores.

    The pixels are what the decoder of a stream without a cache gives.

    Args:
        records: Serialized records of the set.
        schema: Schema of the set, which has an image of an encoding that the reader decodes.
        keep: Function that puts the pixels of an image somewhere, and returns the place.
        where: The set, for messages.

    Raises:
        DamageError: An image is not what was written.
    """
    threads = math.ceil(usable_cores())
    (image,) = (feature for feature in schema.features if feature.kind == "image")
    slim = decoded_schema(schema)
    waiting: deque[Future[tuple[dict[str, Any], Pixels]]] = deque()

    def finished() -> bytes:
        values, pixels = waiting.popleft().result()
        height, width = pixels.shape[:2]
        own = {image.name: b"", "height": height, "width": width, PLACE: keep(pixels)}
        return encode_example(slim, values | own)

    with ThreadPoolExecutor(threads, thread_name_prefix="shardmill-decode") as pool:
        try:
            for serialized in records:
                waiting.append(pool.submit(decoded, serialized, image, where))
                if len(waiting) > _AHEAD * threads:
                    yield finished()
            while waiting:
                yield finished()
        finally:
            for future in waiting:
                future.cancel()


def write_decoded(
    opened: OpenSplit,
    split: str,
    target: Path,
    read: Callable[[int, int], Iterable[bytes]],
    where: object,
) -> None:
    """Writes a shard set of one split, and its pixels to a separate file; the manifest comes last.

    Args:
        opened: The split.
        split: Its name.
        target: An empty directory.
        read: Function from the numbers [begin, end) of records to the serialized records.
        where: The set, for messages.

    Raises:
        DamageError: A record or an image is not what was written.
        OSError: Nothing can be written.
    """
    shards = []
    (target / INDEX_DIR).mkdir()
    common = set(index_schema([]).names)
    columns = [field for field in opened.index.schema if field.name not in common]
    columns += [pa.field(name, pa.int64()) for name in PIXEL_COLUMNS]
    begin, index_rows = 0, opened.index.select(opened.index.column_names)
    index_path, pixels_path = target / index_file(split), target / PIXELS
    with IndexWriter(index_path, columns) as index, pixels_path.open("wb") as pixels_file:
        images: list[tuple[int, int, int]] = []

        def keep(pixels: Pixels) -> int:
            place = pixels_file.tell()
            pixels_file.write(pixels.data)
            images.append((place, pixels.nbytes, pixels_crc(pixels)))
            return place

        for shard in opened.manifest.splits[split].shards:
            path, lengths = target / shard.file, []
            path.parent.mkdir(parents=True, exist_ok=True)  # of an appended generation
            with path.open("wb") as file:
                stored = read(begin, begin + shard.records)
                for record in decoded_records(stored, opened.schema, keep, where):
                    lengths.append(file.write(frame(record)))
            rows = _placed(index_rows.slice(begin, shard.records), lengths)
            for name, values in zip(PIXEL_COLUMNS, zip(*images, strict=True), strict=True):
                rows = rows.append_column(name, pa.array(values, pa.int64()))
            index.append(rows)
            images.clear()
            begin += shard.records
            shards.append(ShardInfo(shard.file, shard.records, sum(lengths), _synced(path)))
    files = {
        path.relative_to(target).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _synced(path),
        }
        for path in (index_path, pixels_path)
    }
    info = SplitInfo(tuple(shards), opened.manifest.splits[split].statistics)
    manifest = _decoded_manifest(opened.manifest, split, info, files)
    (target / MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
    _synced(target / MANIFEST)


def _placed(rows: pa.Table, lengths: list[int]) -> pa.Table:
    """WindowRows of an index with the places of the decoded records."""
    offsets = np.cumsum([0, *lengths])[:-1]
    for name, column in (("offset", offsets), ("length", lengths)):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(column, pa.int64()))
    return rows


def _decoded_manifest(
    manifest: Manifest, split: str, info: SplitInfo, files: dict[str, dict[str, Any]]
) -> Manifest:
    config = {**manifest.config, "decoded_from": manifest.root_hash, "decoder": decoded_name()}
    schema = decoded_schema(manifest.schema)
    changed = dataclasses.replace(manifest, schema=schema, splits={split: info}, config=config)
    # A copy of all generations is one set.
    return dataclasses.replace(changed, files=files, generations=(), home="")


def _synced(path: Path) -> str:
    """SHA-256 of a file that a power cut will find whole."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return file_sha256(path)
