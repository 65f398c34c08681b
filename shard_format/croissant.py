"""croissant.json: with it mlcroissant, and catalogues of data sets, describe and read the set.

Croissant (https://docs.mlcommons.org/croissant) has no TFRecord, so its records are the rows of
tables, `index/SPLIT.parquet`: the columns of the index that a table of plain values can have, with
the file name of the shard and the names of the classes. The shards are listed with their checksums.
Of a large split, each part of the index has a table, and the shards are a pattern and the file that
lists them.

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
import pyarrow.compute as pc

from foundation import storage
from foundation.storage import Place
from shard_format import naming
from shard_format.damaged_records import Damage
from shard_format.index import label_column, read_schema
from shard_format.manifest import Manifest
from shard_format.schema import Feature

# split -> bytes, sha256, md5 and columns of each of its tables
Tables = Mapping[str, Sequence[Mapping[str, Any]]]

_TFRECORD = "application/x-tfrecord"
_PARQUET = "application/x-parquet"
_ARROW = "application/vnd.apache.arrow.file"
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
    part: Place,
    shards: Sequence[str],
    first: int,
    labels: list[Feature],
    target: Place,
    scratch: Path | None = None,
) -> dict[str, Any]:
    """Writes the table of an index, or of a part of it; a record batch is in memory at a time.

    Args:
        part: The index, or its part.
        shards: File names of the shards whose rows it has.
        first: Number of the first of these shards.
        labels: The features of the schema that are labels.
        target: The table, which is written durably.
        scratch: See `storage.create`.

    Returns:
        What croissant.json says of it, see `describe_table`.
    """
    import pyarrow.parquet as pq  # takes a while, and few commands need it

    schema = _table_schema(read_schema(part), labels)
    files = (pa.array(shards, pa.string()), first)
    with (
        storage.create_arrow(target, durable=True, scratch=scratch) as sink,
        pq.ParquetWriter(sink, schema, compression="zstd") as writer,
        # Not mapped: what was read would stay in memory.
        storage.open_arrow(part, mapped=False) as source,
    ):
        rows = pa.ipc.open_file(source)
        for number in range(rows.num_record_batches):
            writer.write_batch(_table_rows(rows.get_batch(number), schema, files, labels))
    return describe_table(target)


def describe_table(table: Place) -> dict[str, Any]:
    """Bytes and checksums of a table, and its "columns", {name: is a list, type in Croissant}.

    Raises:
        OSError: It cannot be read, or is no table.
    """
    import pyarrow.parquet as pq

    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with storage.open_input(table) as file:
        while block := file.read(_BLOCK_BYTES):
            sha256.update(block)
            md5.update(block)
            size += len(block)
    with storage.open_input(table) as file:
        schema = pq.read_schema(file)
    sums = {"bytes": size, "sha256": sha256.hexdigest(), "md5": md5.hexdigest()}
    return sums | {"columns": {field.name: _shown_type(field.type) for field in schema}}


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
            *(one for name in filled for one in _shard_files(manifest, name)),
            *(one for name, of_split in tables.items() for one in _table_files(name, of_split)),
        ],
        "recordSet": [_record_set(name, tables[name]) for name in filled],
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
    labels = manifest.schema.labels
    tables: dict[str, list[dict[str, Any]]] = {}
    for name in _filled(manifest):
        split = manifest.splits[name]
        tables[name] = []
        parts = zip(_files(manifest, name), manifest.shards_by_part(name), strict=True)
        for file, (part, own) in parts:
            shards = [shard.file for shard in split.shards[own.start : own.stop]]
            target = out / file
            scratch = scratch_of(target) if scratch_of else None
            written = write_table(out / part.file, shards, own.start, labels, target, scratch)
            tables[name].append(written)
    write_description(out, manifest, tables, scratch_of)


def write_description(
    out: Place,
    manifest: Manifest,
    tables: Tables,
    scratch_of: Callable[[Place], Path] | None = None,
) -> None:
    """Writes croissant.json of a set, whose tables are there; see `write_croissant`."""
    target = out / naming.CROISSANT
    scratch = scratch_of(target) if scratch_of else None
    text = croissant_text(manifest, tables)
    storage.write_bytes(target, text.encode(), durable=True, scratch=scratch)


def croissant_damages(directory: Place, manifest: Manifest) -> Iterator[Damage]:
    """Yields damage of croissant.json and its tables; older sets have none of them."""
    files = {split: _files(manifest, split) for split in _filled(manifest)}
    missing = [
        file for own in files.values() for file in own if storage.stat(directory / file) is None
    ]
    if storage.stat(directory / naming.CROISSANT) is None:
        if len(missing) < sum(map(len, files.values())):
            yield Damage(naming.CROISSANT, "is missing")
        return
    text = storage.read_bytes(directory / naming.CROISSANT)
    if not _is_of(text, manifest):
        # So it says nothing of the tables.
        yield Damage(naming.CROISSANT, "does not describe this set")
        return
    tables: dict[str, list[dict[str, Any]]] = {split: [] for split in files}
    for split, file in ((split, file) for split, own in files.items() for file in own):
        if file in missing:
            yield Damage(file, "is missing")
            continue
        try:
            table = describe_table(directory / file)
        except (OSError, pa.ArrowException) as error:
            yield Damage(file, f"cannot be read: {getattr(error, 'strerror', None) or error}")
            continue
        # A flipped bit of croissant.json is in one of them.
        if table["sha256"].encode() not in text and table["md5"].encode() not in text:
            yield Damage(file, f"does not match its SHA-256 in {naming.CROISSANT}")
            continue
        tables[split].append(table)
    whole = all(len(tables[split]) == len(own) for split, own in files.items())
    if whole and text != croissant_text(manifest, tables).encode():
        yield Damage(naming.CROISSANT, "does not describe this set")


def _is_of(text: bytes, manifest: Manifest) -> bool:
    """Whether a croissant.json names any shard of a set, or any list of them."""
    named: list[str] = []
    for name, split in manifest.splits.items():
        if split.index:
            named.append(manifest.files[manifest.shards_file(name)]["sha256"])
        else:
            named += [shard.sha256 for shard in split.shards]
    return not named or any(sha256.encode() in text for sha256 in named)


def _filled(manifest: Manifest) -> list[str]:
    return [name for name, split in manifest.splits.items() if split.records]


def _files(manifest: Manifest, split: str) -> list[str]:
    return naming.table_files(split, len(manifest.splits[split].index))


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
    batch: pa.RecordBatch, schema: pa.Schema, shards: tuple[pa.Array, int], labels: list[Feature]
) -> pa.RecordBatch:
    files, first = shards
    class_names = {label_column(one.name): pa.array(one.class_names, pa.string()) for one in labels}
    columns = []
    for name in schema.names:
        column = batch.column(name)
        if name == "shard":
            column = files.take(pc.subtract(column, first))
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


def _shard_files(manifest: Manifest, split: str) -> Iterator[dict[str, Any]]:
    """The shards of a split; of many a pattern, and the file that has their checksums."""
    info = manifest.splits[split]
    if not info.index:
        for shard in info.shards:
            yield _file(shard.file, _TFRECORD, shard.bytes, shard.sha256)
        return
    file = manifest.shards_file(split)
    yield _file(file, _ARROW, manifest.files[file]["bytes"], manifest.files[file]["sha256"])
    yield _file_set(f"{split}-shards", _TFRECORD, f"{manifest.name}-{split}.tfrecord-*")


def _table_files(split: str, tables: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The tables of a split; of several a pattern, too, which is what its records are read from."""
    files = naming.table_files(split, len(tables) if len(tables) > 1 else 0)
    for file, table in zip(files, tables, strict=True):
        yield _file(file, _PARQUET, table["bytes"], table["sha256"]) | {"md5": table["md5"]}
    if len(tables) > 1:
        yield _file_set(_tables_id(split), _PARQUET, f"{naming.INDEX_DIR}/{split}-*.parquet")


def _tables_id(split: str) -> str:
    return f"{split}-tables"


def _file_set(name: str, encoding: str, pattern: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "name": name,
        "encodingFormat": encoding,
        "includes": pattern,
    }


def _record_set(split: str, tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    source = {"fileObject": {"@id": naming.table_files(split)[0]}}
    if len(tables) > 1:
        source = {"fileSet": {"@id": _tables_id(split)}}
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "key": {"@id": f"{split}/record_id"},
        "field": [
            _field(split, name, shown, source) for name, shown in tables[0]["columns"].items()
        ],
    }


def _shown_type(kind: pa.DataType) -> tuple[bool, str | None]:
    """Whether a column has lists, and the type of its values in Croissant."""
    repeated = pa.types.is_list(kind)
    return repeated, _croissant_type(kind.value_type if repeated else kind)


def _field(
    split: str, name: str, shown: Sequence[Any], source: Mapping[str, Any]
) -> dict[str, Any]:
    repeated, kind = shown
    described = {
        "@type": "cr:Field",
        "@id": f"{split}/{name}",
        "name": name,
        "dataType": kind,
        "source": {**source, "extract": {"column": name}},
    }
    return described | ({"repeated": True} if repeated else {})
