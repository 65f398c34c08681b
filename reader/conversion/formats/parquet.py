"""Parquet with the features of Hugging Face datasets, in the layout of its Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from reader.conversion.base import CHECKSUM, ConversionFormat, ConversionPiece, Record
from reader.conversion.plain_values import nested, plain, value_at
from shard_format import Feature, Schema

_GROUP_BYTES = 32 << 20  # 32 MiB in a row group: what a reader of single rows has to load
_IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})  # of Hugging Face's Image
_HUB_TYPES = {"text": "string", "bytes": "binary", "image": "binary"}


class ParquetFormat(ConversionFormat):
    """data/SPLIT-00000-of-00004.parquet; `datasets.load_dataset` decodes images and labels."""

    files = "Parquet"
    reading = (
        "from datasets import load_dataset\n\n"
        'records = load_dataset(".", split="{split}")\nprint(records[0])'
    )
    data_files = "data/{split}-*.parquet"

    @override
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> None:
        arrow = _arrow_schema(schema)
        path = folder / "data" / f"{piece.split}-{piece.number:05d}-of-{piece.pieces:05d}.parquet"
        path.parent.mkdir()
        with pq.ParquetWriter(
            path,
            arrow,
            compression=_codecs(arrow),
            use_dictionary=False,
            write_page_checksum=True,
        ) as writer:
            rows: list[dict[str, Any]] = []
            size = 0
            for record in records:
                rows.append(_row(schema, record))
                size += len(record.example)
                if size >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_pylist(rows, arrow))
                    rows, size = [], 0
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, arrow))


def _arrow_schema(schema: Schema) -> pa.Schema:
    types = nested(schema, {one.name: _arrow_type(one) for one in schema.features})
    hub = nested(schema, {one.name: _hub_feature(one) for one in schema.features})
    hub[CHECKSUM] = {"dtype": "int64", "_type": "Value"}
    fields = [pa.field(name, _type_of(value)) for name, value in types.items()]
    return pa.schema(
        [*fields, pa.field(CHECKSUM, pa.int64())],
        # As `datasets` writes it: `Features.to_dict` in the JSON of a DatasetInfo.
        {"huggingface": json.dumps({"info": {"features": hub}})},
    )


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, dict):
        return pa.struct({key: _type_of(one) for key, one in value.items()})
    return value


def _codecs(schema: pa.Schema) -> dict[str, str]:
    """The codec of every column: images are compressed already."""
    codecs = {}

    def visit(path: str, kind: pa.DataType) -> None:
        if kind == _IMAGE:
            codecs.update({f"{path}.{field.name}": "NONE" for field in kind})
        elif pa.types.is_struct(kind):
            for field in kind:
                visit(f"{path}.{field.name}", field.type)
        elif pa.types.is_list(kind):
            visit(f"{path}.list.element", kind.value_type)
        else:
            codecs[path] = "ZSTD"

    for field in schema:
        visit(field.name, field.type)
    return codecs


def _is_file(feature: Feature) -> bool:
    """Whether a value is an image that other programs decode, not pixels."""
    return feature.kind == "image" and feature.encoding != "raw"


def _dimensions(feature: Feature) -> int:
    """Levels of lists in a value."""
    return len(feature.dims) + (feature.kind == "bbox")


def _arrow_type(feature: Feature) -> pa.DataType:
    kinds = {
        "image": _IMAGE if _is_file(feature) else pa.binary(),
        "text": pa.string(),
        "bytes": pa.binary(),
    }
    kind = kinds.get(feature.kind) or pa.from_numpy_dtype(feature.type.dtype)
    for _ in range(_dimensions(feature)):
        kind = pa.list_(kind)
    return kind


def _hub_feature(feature: Feature) -> dict[str, Any]:
    if _is_file(feature):
        described: dict[str, Any] = {"_type": "Image"}
    elif feature.kind == "class_label":
        described = {"names": list(feature.class_names), "_type": "ClassLabel"}
    else:
        dtype = _HUB_TYPES.get(feature.kind, feature.type.dtype)
        described = {"dtype": dtype, "_type": "Value"}
    for _ in range(_dimensions(feature)):
        described = {"feature": described, "_type": "Sequence"}
    return described


def _row(schema: Schema, record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for feature in schema.features:
        value = value_at(record.values, schema.paths[feature.name])
        row[feature.name] = _image(value) if _is_file(feature) else plain(value)
    return nested(schema, row) | {CHECKSUM: record.checksum}


def _image(value: Any) -> Any:
    return [_image(one) for one in value] if isinstance(value, list) else {"bytes": value}
