"""croissant.json: with it mlcroissant, and catalogues of data sets, describe and read the set.

Croissant (https://docs.mlcommons.org/croissant) has no TFRecord, so its records are the rows of
tables, `index/SPLIT.parquet`: the columns of the index that a table of plain values can have, with
the file name of the shard and the names of the classes. The shards are listed with their checksums.

Both are functions of the manifest and the index, and the manifest does not name them: a set has the
same root hash with and without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from foundation import storage
from foundation.storage import Place
from shard_format import naming
from shard_format.damaged_records import Damage
from shard_format.index import label_column, open_index
from shard_format.manifest import Manifest, ShardInfo
from shard_format.schema import Feature

Tables = Mapping[str, Mapping[str, Any]]  # split -> bytes, sha256, md5, columns of its table

_TFRECORD = "application/x-tfrecord"
_PARQUET = "application/x-parquet"
_BLOCK_BYTES = 1 << 20  # 1 MiB
_NOT_SHOWN = ("key", "fingerprint")
# The terms of Croissant in the context of version 1.0, as mlcroissant writes it.
_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex "
    "repeated replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}


def write_table(
    parts: list[Place],
    shards: Sequence[ShardInfo],
    labels: list[Feature],
    target: Place,
    scratch: Path | None = None,
) -> None:
    """Writes the table of a split, durably; one record batch of the index is in memory at a time.

    Args:
        parts: The files of the index of the split.
        shards: Shards of the split.
        labels: The features of the schema that are labels.
        target: The table.
        scratch: See `storage.create`.
    """
    import pyarrow.parquet as pq  # takes a while, and few commands need it

    schema = _table_schema(open_index(parts[0]).schema, labels)
    with (
        storage.create_arrow(target, durable=True, scratch=scratch) as sink,
        pq.ParquetWriter(sink, schema, compression="zstd") as writer,
    ):
        files = pa.array([shard.file for shard in shards], pa.string())
        for part in parts:
            # Not mapped: what was read would stay in memory.
            with storage.open_arrow(part, mapped=False) as source:
                rows = pa.ipc.open_file(source)
                for number in range(rows.num_record_batches):
                    writer.write_batch(_table_rows(rows.get_batch(number), schema, files, labels))


def croissant_text(manifest: Manifest, tables: Tables) -> str:
    """The content of croissant.json.

    Args:
        manifest: Manifest of the set.
        tables: Description of the table of every split with records.
    """
    filled = {name: split for name, split in manifest.splits.items() if split.records}
    records = ", ".join(f"{split.records:,} of {name}" for name, split in filled.items())
    text = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": manifest.name,
        "description": (
            f"A shard set of shardmill with {manifest.schema.record_type} records: {records}. The "
            "records are in TFRecord files; a record set has a row for each of them, with file, "
            f"byte offset and length. Root hash {manifest.root_hash}."
        ),
        "version": "1.0.0",
        "distribution": [
            *(
                _file(shard.file, _TFRECORD, shard.bytes, shard.sha256)
                for split in filled.values()
                for shard in split.shards
            ),
            *(
                _file(naming.table_file(name), _PARQUET, table["bytes"], table["sha256"])
                | {"md5": table["md5"]}
                for name, table in tables.items()
            ),
        ],
        "recordSet": [_record_set(name, tables[name]["columns"]) for name in filled],
    }
    return json.dumps(text, indent=1, sort_keys=True) + "\n"


def write_croissant(
    out: Place, manifest: Manifest, scratch_of: Callable[[Place], Path] | None = None
) -> None:
    """Writes the tables and croissant.json of a set, whose index is there.

    Args:
        out: The set.
        manifest: Manifest of the set; need not be written.
        scratch_of: From a file to `scratch` of `storage.create`; by default none is given.
    """
    labels = [feature for feature in manifest.schema.features if feature.kind == "class_label"]
    for name in _filled(manifest):
        parts = [out / part.file for part in manifest.index_parts(name)]
        target = out / naming.table_file(name)
        scratch = scratch_of(target) if scratch_of else None
        write_table(parts, manifest.splits[name].shards, labels, target, scratch)
    tables = {name: out / naming.table_file(name) for name in _filled(manifest)}
    text = croissant_text(
        manifest,
        {name: _checksums(table) | {"columns": _columns(table)} for name, table in tables.items()},
    )
    target = out / naming.CROISSANT
    scratch = scratch_of(target) if scratch_of else None
    storage.write_bytes(target, text.encode(), durable=True, scratch=scratch)


def croissant_damages(directory: Place, manifest: Manifest) -> Iterator[Damage]:
    """Yields damage of croissant.json and its tables; older sets have none of them."""
    if not manifest.has_shard_lists():
        return
    files = {split: naming.table_file(split) for split in _filled(manifest)}
    there = {split for split, file in files.items() if storage.stat(directory / file) is not None}
    if storage.stat(directory / naming.CROISSANT) is None:
        if there:
            yield Damage(naming.CROISSANT, "is missing")
        return
    text = storage.read_bytes(directory / naming.CROISSANT)
    shards = [shard.sha256 for split in manifest.splits.values() for shard in split.shards]
    if shards and not any(sha256.encode() in text for sha256 in shards):
        # So it says nothing of the tables.
        yield Damage(naming.CROISSANT, "does not describe this set")
        return
    tables = {}
    for split, file in files.items():
        if split not in there:
            yield Damage(file, "is missing")
            continue
        try:
            sums = _checksums(directory / file)
        except OSError as error:
            yield Damage(file, f"cannot be read: {error.strerror}")
            continue
        # A flipped bit of croissant.json is in one of them.
        if sums["sha256"].encode() not in text and sums["md5"].encode() not in text:
            yield Damage(file, f"does not match its SHA-256 in {naming.CROISSANT}")
            continue
        tables[split] = sums | {"columns": _columns(directory / file)}
    if len(tables) == len(files) and text != croissant_text(manifest, tables).encode():
        yield Damage(naming.CROISSANT, "does not describe this set")


def _filled(manifest: Manifest) -> list[str]:
    return [name for name, split in manifest.splits.items() if split.records]


def _checksums(table: Place) -> dict[str, Any]:
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with storage.open_input(table) as file:
        while block := file.read(_BLOCK_BYTES):
            sha256.update(block)
            md5.update(block)
            size += len(block)
    return {"bytes": size, "sha256": sha256.hexdigest(), "md5": md5.hexdigest()}


def _columns(table: Place) -> pa.Schema:
    import pyarrow.parquet as pq

    with storage.open_input(table) as file:
        return pq.read_schema(file)


def _table_schema(index: pa.Schema, labels: list[Feature]) -> pa.Schema:
    names = {label_column(feature.name) for feature in labels if not feature.shape}
    fields = []
    for field in index:
        if field.name == "shard" or field.name in names:
            fields.append(pa.field(field.name, pa.string()))
        elif field.name == "labels":
            fields.append(pa.field(field.name, pa.list_(pa.string())))
        elif field.name not in (*_NOT_SHOWN, "label") and _croissant_type(field.type):
            fields.append(field.remove_metadata())
    return pa.schema(fields)


def _table_rows(
    batch: pa.RecordBatch, schema: pa.Schema, shards: pa.Array, labels: list[Feature]
) -> pa.RecordBatch:
    class_names = {label_column(one.name): pa.array(one.class_names, pa.string()) for one in labels}
    columns = []
    for name in schema.names:
        column = batch.column(name)
        if name == "shard":
            column = shards.take(column)
        elif name == "labels":
            taken = class_names["label"].take(column.flatten())
            offsets = pa.array(_from_zero(column), pa.int32())
            column = pa.ListArray.from_arrays(offsets, taken)
        elif name in class_names:
            column = class_names[name].take(column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _from_zero(lists: pa.ListArray) -> Any:
    offsets = lists.offsets.to_numpy()
    return offsets - offsets[0]


def _croissant_type(kind: pa.DataType) -> str | None:
    if pa.types.is_string(kind):
        return "sc:Text"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Boolean" if pa.types.is_boolean(kind) else None


def _file(name: str, encoding: str, size: int, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{size} B",
        "encodingFormat": encoding,
        "sha256": sha256,
    }


def _record_set(split: str, columns: pa.Schema) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "key": {"@id": f"{split}/record_id"},
        "field": [_field(split, field) for field in columns],
    }


def _field(split: str, field: pa.Field) -> dict[str, Any]:
    repeated = pa.types.is_list(field.type)
    described = {
        "@type": "cr:Field",
        "@id": f"{split}/{field.name}",
        "name": field.name,
        "dataType": _croissant_type(field.type.value_type if repeated else field.type),
        "source": {
            "fileObject": {"@id": naming.table_file(split)},
            "extract": {"column": field.name},
        },
    }
    return described | ({"repeated": True} if repeated else {})
