"""Parquet with the features of Hugging Face datasets, in the layout of its Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
    packages = ("pyarrow",)
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
            group: list[Record] = []
            size = 0
            for record in records:
                group.append(record)
                size += len(record.example)
                if size >= _GROUP_BYTES:
                    writer.write_table(_table(schema, arrow, group))
                    group, size = [], 0
            if group:
                writer.write_table(_table(schema, arrow, group))


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


def _table(schema: Schema, arrow: pa.Schema, records: Sequence[Record]) -> pa.Table:
    columns = {one.name: _column(schema, one, records) for one in schema.features}
    arrays = nested(schema, columns) | {
        CHECKSUM: pa.array([record.checksum for record in records], pa.int64())
    }
    return pa.table([_joined(arrays[field.name], field.type) for field in arrow], arrow)


def _column(schema: Schema, feature: Feature, records: Sequence[Record]) -> pa.Array:
    path, kind = schema.paths[feature.name], _arrow_type(feature)
    values = [value_at(record.values, path) for record in records]
    if kind == _IMAGE:  # without an object for each
        parts = pa.array(values, pa.binary()), pa.nulls(len(values), pa.string())
        return pa.StructArray.from_arrays(parts, fields=list(_IMAGE))
    return pa.array([_image(one) if _is_file(feature) else plain(one) for one in values], kind)


def _joined(value: Any, kind: pa.DataType) -> pa.Array:
    """An array of one feature, or of the nested ones of a group."""
    if not isinstance(value, dict):
        return value
    parts = [_joined(value[field.name], field.type) for field in kind]
    return pa.StructArray.from_arrays(parts, fields=list(kind))


def _image(value: Any) -> Any:
    return [_image(one) for one in value] if isinstance(value, list) else {"bytes": value}
