"""croissant.json: with it mlcroissant, and catalogues of data sets, describe and read the set.

Its files and records are described here; what it says of the set as a whole is in
`croissant_terms`.

Croissant (https://docs.mlcommons.org/croissant) has no TFRecord, so its records are the rows of
tables, `index/SPLIT.parquet`: the columns of the index that a table of plain values can have, with
the file name of the shard and the names of the classes. The shards are listed with their checksums.
Of a large split, each part of the index has a table, and the shards are a pattern and the file that
lists them.

They are functions of the manifest, the index and build.json, which has the papers. The manifest
does not name them: a set has the same root hash with and without them. Sets of earlier versions
have a croissant.json of version 1.0, which is compared with what these would have written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foundation import storage
from foundation.storage import Place
from shard_format import naming
from shard_format.checksums import whole_build
from shard_format.croissant_terms import described_in_1_0, described_set
from shard_format.damaged_records import Damage
from shard_format.index import label_column, read_schema
from shard_format.manifest import Manifest
from shard_format.papers import copied_facts
from shard_format.schema import Feature

# split -> bytes, sha256, md5 and columns of each of its tables
Tables = Mapping[str, Sequence[Mapping[str, Any]]]

_TFRECORD = "application/x-tfrecord"
_PARQUET = "application/x-parquet"
_ARROW = "application/vnd.apache.arrow.file"
_SHA256 = re.compile(rb"\b[0-9a-f]{64}\b")
_BLOCK_BYTES = 1 << 20  # 1 MiB
_NOT_SHOWN = ("key", "fingerprint")
_SPLITS = "split-names"  # no split has a hyphen in its name
_OF_SPLIT = {
    "train": "cr:TrainingSplit",
    "val": "cr:ValidationSplit",
    "validation": "cr:ValidationSplit",
    "test": "cr:TestSplit",
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


def croissant_text(
    manifest: Manifest, tables: Tables, build: Mapping[str, Any] | None = None
) -> str:
    """The content of croissant.json.

    Args:
        manifest: Manifest of the set.
        tables: Description of the table of every split with records.
        build: The content of build.json; empty if there is none. None for version 1.0, as earlier
            versions wrote it.
    """
    filled = _filled(manifest)
    labels = set()
    if build is not None:
        labels = {label_column(one.name) for one in manifest.schema.labels} | {"labels"}
    text = {
        **(described_in_1_0(manifest) if build is None else described_set(manifest, build)),
        "distribution": [
            *(one for name in filled for one in _shard_files(manifest, name)),
            *(one for name, of_split in tables.items() for one in _table_files(name, of_split)),
        ],
        "recordSet": [
            *([] if build is None or not filled else [_split_names(filled)]),
            *(_record_set(name, tables[name], labels) for name in filled),
        ],
    }
    return json.dumps(text, indent=1, sort_keys=True) + "\n"


def _split_names(splits: Sequence[str]) -> dict[str, Any]:
    """The splits as a record set, which says what each is for."""
    return {
        "@type": "cr:RecordSet",
        "@id": _SPLITS,
        "name": _SPLITS,
        "dataType": "cr:Split",
        "key": {"@id": f"{_SPLITS}/name"},
        "field": [
            {"@type": "cr:Field", "@id": f"{_SPLITS}/name", "name": "name", "dataType": "sc:Text"},
            {
                "@type": "cr:Field",
                "@id": f"{_SPLITS}/url",
                "name": "url",
                "dataType": ["sc:URL", "cr:Split"],
            },
        ],
        "data": [
            {f"{_SPLITS}/name": name, f"{_SPLITS}/url": _OF_SPLIT.get(name, "cr:Split")}
            for name in splits
        ],
    }


def write_croissant(
    out: Place, manifest: Manifest, scratch_of: Callable[[Place], Path] | None = None
) -> None:
    """Writes the tables and croissant.json of a set, whose index and build.json are there.

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
    text = croissant_text(manifest, tables, whole_build(out))
    storage.write_bytes(target, text.encode(), durable=True, scratch=scratch)


def renew_description(
    out: Place, manifest: Manifest, scratch_of: Callable[[Place], Path] | None = None
) -> None:
    """Writes croissant.json again, with other papers; tables are not read, however large.

    A set without croissant.json stays without, and a damaged one stays as it is, for a repair.
    """
    try:
        text = storage.read_bytes(out / naming.CROISSANT)
        tables = _tables_in(json.loads(text), manifest)
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
        return
    expected = croissant_text(manifest, tables, whole_build(out)).encode()
    if _is_of(text, manifest) and text != expected:
        write_description(out, manifest, tables, scratch_of)


def _tables_in(croissant: Mapping[str, Any], manifest: Manifest) -> Tables:
    """What a croissant.json says of the tables, as `describe_table` returns it."""
    files = {file["@id"]: file for file in croissant["distribution"]}
    splits = {records["@id"]: records for records in croissant["recordSet"]}
    tables: dict[str, list[dict[str, Any]]] = {}
    for split in _filled(manifest):
        columns = {
            field["name"]: (field.get("repeated", False), _first(field["dataType"]))
            for field in splits[split]["field"]
        }
        tables[split] = [
            {
                "bytes": int(files[file]["contentSize"].removesuffix(" B")),
                "sha256": files[file]["sha256"],
                "md5": files[file]["md5"],
                "columns": columns,
            }
            for file in _files(manifest, split)
        ]
    return tables


def _first(types: str | list[str]) -> str:
    return types if isinstance(types, str) else types[0]


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
    if whole and not _describes(text, manifest, tables, directory):
        yield Damage(naming.CROISSANT, "does not describe this set")


def _describes(text: bytes, manifest: Manifest, tables: Tables, directory: Place) -> bool:
    """Whether a croissant.json is what follows from manifest, tables and build.json."""
    if text == croissant_text(manifest, tables).encode():
        return True  # of an earlier version
    build = whole_build(directory)
    expected = croissant_text(manifest, tables, build)
    if build:
        return text == expected.encode()
    # Nothing says which papers it must have, but they have a checksum of their own.
    if copied_facts(text) is None:
        return False
    rest = json.loads(expected)
    own = json.loads(text)
    return all(own.get(name) == rest[name] for name in ("distribution", "recordSet"))


def _is_of(text: bytes, manifest: Manifest) -> bool:
    """Whether a croissant.json is whole, and names the shards of a set or the lists of them.

    One may be another: a flipped bit is in one of them. Another build may share a few.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    named: list[str] = []
    for name, split in manifest.splits.items():
        if split.index:
            named.append(manifest.files[manifest.shards_file(name)]["sha256"])
        else:
            named += [shard.sha256 for shard in split.shards]
    written = set(_SHA256.findall(text))
    known = sum(sha256.encode() in written for sha256 in named)
    return not named or known >= max(1, len(named) - 1)


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


def _record_set(
    split: str, tables: Sequence[Mapping[str, Any]], labels: Container[str]
) -> dict[str, Any]:
    source = {"fileObject": {"@id": naming.table_files(split)[0]}}
    if len(tables) > 1:
        source = {"fileSet": {"@id": _tables_id(split)}}
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "key": {"@id": f"{split}/record_id"},
        "field": [
            _field(split, name, shown, source, is_label=name in labels)
            for name, shown in tables[0]["columns"].items()
        ],
    }


def _shown_type(kind: pa.DataType) -> tuple[bool, str | None]:
    """Whether a column has lists, and the type of its values in Croissant."""
    repeated = pa.types.is_list(kind)
    return repeated, _croissant_type(kind.value_type if repeated else kind)


def _field(
    split: str, name: str, shown: Sequence[Any], source: Mapping[str, Any], *, is_label: bool
) -> dict[str, Any]:
    repeated, kind = shown
    described = {
        "@type": "cr:Field",
        "@id": f"{split}/{name}",
        "name": name,
        "dataType": [kind, "cr:Label"] if is_label else kind,
        "source": {**source, "extract": {"column": name}},
    }
    return described | ({"repeated": True} if repeated else {})
