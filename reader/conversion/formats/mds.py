"""MDS, the shards of MosaicML Streaming."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from reader.conversion.base import ConversionFormat, ConversionPiece, Record
from reader.conversion.plain_values import (
    ARRAY,
    BYTES,
    JSON,
    NUMBER,
    TEXT,
    Column,
    columns_of,
    flat_values,
)
from shard_format import Schema

_INDEX = "index.json"


class MdsFormat(ConversionFormat):
    """SPLIT/00000/shard.00000.mds, and the merged SPLIT/index.json that a StreamingDataset reads.

    Images are columns of bytes: MDSWriter would decode and encode them for its own.
    """

    files = "shards of MosaicML Streaming"
    reading = (
        "from streaming import StreamingDataset\n\n"
        'records = StreamingDataset(local="{split}", batch_size=1)\nprint(records[0])'
    )
    packages = ("mosaicml-streaming",)

    @override
    def load(self) -> None:
        import streaming  # noqa: F401

        # Merging indexes warns of each folder that it finds, and of its own temporary one.
        logging.getLogger("streaming").setLevel(logging.ERROR)

    @override
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> Any:
        from streaming import MDSWriter

        columns = columns_of(schema)
        encodings = {key: encoding for one in columns for key, encoding in _encodings(one)}
        out = folder / piece.split / f"{piece.number:05d}"
        # One shard: a piece has the size of one.
        with MDSWriter(columns=encodings, out=str(out), size_limit=None) as writer:
            for record in records:
                values = flat_values(schema, record)
                sample: dict[str, Any] = {}
                for column in columns:
                    sample |= _stored(column, values[column.name])
                writer.write(sample)
        index = out / _INDEX
        content = json.loads(index.read_text())
        index.unlink()
        return content

    @override
    def finish(
        self,
        name: str,
        schema: Schema,
        splits: Mapping[str, Sequence[ConversionPiece]],
        details_of: Callable[[ConversionPiece], Any],
        folder: Path,
    ) -> None:
        from streaming.base.util import merge_index

        for split, pieces in splits.items():
            for one in pieces:
                index = folder / split / f"{one.number:05d}" / _INDEX
                index.parent.mkdir(parents=True)
                index.write_text(json.dumps(details_of(one)))
            merge_index(str(folder / split), keep_local=True)


def _encodings(column: Column) -> Iterator[tuple[str, str]]:
    """Names and encodings of the columns of MDS for a column.

    MDS has no empty arrays, so one whose size varies is its bytes, as token ids usually are there.
    """
    dtype = "uint8" if column.dtype == "bool" else column.dtype
    if column.kind == NUMBER:
        yield column.name, dtype
    elif column.kind != ARRAY:
        yield column.name, {TEXT: "str", JSON: "str", BYTES: "bytes"}[column.kind]
    elif -1 in column.shape:
        yield column.name, "bytes"
        if _needs_shape(column):
            yield f"{column.name}/shape", f"ndarray:int64:{len(column.shape)}"
    else:
        yield column.name, f"ndarray:{dtype}:{','.join(map(str, column.shape))}"


def _needs_shape(column: Column) -> bool:
    """Whether the shape of an array does not follow from its size."""
    return column.shape.count(-1) > 1


def _stored(column: Column, value: Any) -> dict[str, Any]:
    """The values of the columns of MDS."""
    if column.kind not in (NUMBER, ARRAY):
        return {column.name: value}
    array = np.asarray(value, "uint8" if column.dtype == "bool" else column.dtype)
    if column.kind == NUMBER:
        return {column.name: array[()]}
    if -1 not in column.shape:
        return {column.name: array}
    stored: dict[str, Any] = {column.name: array.tobytes()}
    if _needs_shape(column):
        stored[f"{column.name}/shape"] = np.array(array.shape, np.int64)
    return stored
