"""A split with its pictures decoded, whole: as records in memory, or as a shard set on disk."""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from reader.caching.origins import Origin
from reader.caching.records import OnBytes, stored_records
from reader.decoders import DECODERS
from reader.record_types import OpenSplit
from shard_format import (
    DamageError,
    Feature,
    IndexWriter,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    decode_example,
    encode_example,
    file_sha256,
    frame,
    index_schema,
)
from shard_format.naming import INDEX_DIR, MANIFEST, index_file

# Beside pixels and what was stored: names and numbers of the two sides.
_SIDES_BYTES = 64
_AHEAD = 4  # pictures being decoded or waiting, for each thread


def decoded_name() -> str:
    """What decoded copies are called; pixels may differ between versions of TensorFlow."""
    return f"decoded-tf{tf.__version__}"


def decoded_schema(schema: Schema) -> Schema:
    """The schema of records whose pictures are pixels; all other features stay as they are."""
    sides = {"height", "width"}
    features: list[Feature] = []
    for feature in schema.features:
        if feature.name in sides:
            continue
        if feature.kind == "image":
            features.append(dataclasses.replace(feature, encoding="raw"))
            features += [Feature("height", "int64"), Feature("width", "int64")]
        else:
            features.append(feature)
    return Schema(schema.record_type, tuple(features))


def decoded_split(opened: OpenSplit) -> OpenSplit:
    """A split as a record type sees it when its pictures are decoded."""
    manifest = dataclasses.replace(opened.manifest, schema=decoded_schema(opened.schema))
    return dataclasses.replace(opened, manifest=manifest)


def decoded_bytes(opened: OpenSplit, split: SplitInfo) -> int:
    """What a split takes when its pictures are decoded, at most.

    Raises:
        DamageError: The index does not tell how large pictures are.
    """
    missing = {"width", "height"} - set(opened.index.column_names)
    if missing:
        raise DamageError(
            f"an index of pictures must have the columns width and height, got no "
            f"{' and no '.join(sorted(missing))} in {opened.where}. Build the set again, or pass "
            'cache_stage="stored".'
        )
    pixels = 0
    # Batch by batch: the product of two columns of a billion rows would be 8 GB.
    for batch in opened.index.select(["width", "height"]).to_batches():
        width, height = (np.asarray(column, np.int64) for column in batch.columns)
        pixels += int(width @ height)
    return 3 * pixels + split.bytes + _SIDES_BYTES * split.records


def decoded_records(
    origin: Origin, shards: Iterable[ShardInfo], schema: Schema, on_bytes: OnBytes
) -> Iterator[bytes]:
    """The records of some shards as `decoded_schema` has them, in order, decoded on all cores.

    The pixels are what TensorFlow's decoder gives, as in a stream without a cache.

    Args:
        origin: Where the shards lie.
        shards: As the manifest describes them.
        schema: Of the set; has a picture of an encoding that the reader decodes.
        on_bytes: Called with the size of every part that was read.

    Raises:
        DamageError: A shard or a picture is not what was written.
        OSError: A shard cannot be read.
    """
    threads = os.cpu_count() or 1
    waiting: deque[Future[bytes]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="shardmill-decode") as pool:
        try:
            for shard in shards:
                name = origin.name(shard.file)
                for serialized in stored_records(origin, shard, on_bytes):
                    waiting.append(pool.submit(_decoded, serialized, schema, name))
                    if len(waiting) > _AHEAD * threads:
                        yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _decoded(serialized: bytes, schema: Schema, name: str) -> bytes:
    image = next(feature for feature in schema.features if feature.kind == "image")
    values: dict[str, Any] = dict(decode_example(serialized))
    (values["image"],) = values.pop(image.name)
    try:
        with tf.device("/CPU:0"):
            pixels = DECODERS[image.encoding].decode(values, None).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise DamageError(
            f"a picture must be one that TensorFlow decodes, got '{error.message}' for record "
            f"{values.get('id')} of {name}. Read without cache_stage to see whether it is used."
        ) from error
    values["height"], values["width"] = pixels.shape[:2]
    values[image.name] = pixels.tobytes()
    return encode_example(decoded_schema(schema), values)


def write_decoded(
    origin: Origin, opened: OpenSplit, split: str, target: Path, on_bytes: OnBytes
) -> None:
    """Writes a shard set of one split with its pictures decoded; manifest last, as always.

    Args:
        origin: Where the split lies.
        opened: The split.
        split: Its name.
        target: An empty directory.
        on_bytes: Called with the size of every part that was read.

    Raises:
        DamageError: A shard or a picture is not what was written.
        OSError: A shard cannot be read, or nothing be written.
    """
    shards = []
    (target / INDEX_DIR).mkdir()
    common = set(index_schema([]).names)
    columns = [field for field in opened.index.schema if field.name not in common]
    begin = 0
    with IndexWriter(target / index_file(split), columns) as index:
        for shard in opened.manifest.splits[split].shards:
            lengths = []
            with (target / shard.file).open("wb") as file:
                for record in decoded_records(origin, [shard], opened.schema, on_bytes):
                    lengths.append(file.write(frame(record)))
                _sync(file)
            rows = opened.index.slice(begin, shard.records)
            index.append(_placed(rows, lengths, target / shard.file))
            begin += shard.records
            path = target / shard.file
            shards.append(ShardInfo(shard.file, shard.records, sum(lengths), file_sha256(path)))
    path = target / index_file(split)
    with path.open("rb") as file:
        _sync(file)
    files = {index_file(split): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}}
    info = SplitInfo(tuple(shards), opened.manifest.splits[split].statistics)
    manifest = _decoded_manifest(opened.manifest, split, info, files)
    with (target / MANIFEST).open("w", encoding="utf-8") as text:
        text.write(manifest.to_text())
        _sync(text)


def _placed(rows: pa.Table, lengths: list[int], path: Path) -> pa.Table:
    """Rows of an index with the places of the decoded records."""
    if len(lengths) != rows.num_rows:
        raise DamageError(
            f"a shard must have the records in its index ({rows.num_rows}), got {len(lengths)} for "
            f"{path.name}. Run 'shardmill verify'."
        )
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
    return dataclasses.replace(
        manifest, schema=schema, splits={split: info}, config=config, files=files
    )


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
