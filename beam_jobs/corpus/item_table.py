"""Source items as rows of Arrow tables: the listing on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.record import WHOLE_FILE, ByteRange, Locator, SourceItem

MEMBER_FIELDS = (  # the first fields of a Locator
    pa.field("container", pa.string()),
    pa.field("codec", pa.string()),
    pa.field("offset", pa.int64()),
    pa.field("size", pa.int64()),
    pa.field("stored_size", pa.int64()),
    pa.field("crc", pa.int64()),
    pa.field("method", pa.int32()),
)
_LOCATOR = pa.struct(
    [
        *MEMBER_FIELDS,
        pa.field("gaps", pa.list_(pa.struct([("offset", pa.int64()), ("size", pa.int64())]))),
        pa.field("companions", pa.list_(pa.struct([("name", pa.string()), *MEMBER_FIELDS]))),
        pa.field("format", pa.string()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("seek", pa.int64()),
        pa.field("context", pa.string()),
    ]
)
ITEM_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("locator", _LOCATOR),  # null for a whole file
        pa.field("block", pa.int64(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
        pa.field("kept", pa.binary()),  # JSON; null without values
        pa.field("replacement", pa.binary(), nullable=False),
    ]
)
# ".jpg", ".jsonl.gz"; of a part of a large file the ending of the file.
_ENDING = r"(?P<end>(?P<inner>\.\w{1,8})?\.(?P<codec>gz|zst|bz2|xz)|\.\w{1,8})(?P<part>/\d{12})?$"
_MEMBER_NAMES = tuple(field.name for field in MEMBER_FIELDS)


def row_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of values in the order of a schema."""
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(values, field.type) for values, field in columns]
    return pa.record_batch(arrays, schema=schema)


def item_batch(items: Sequence[SourceItem]) -> pa.RecordBatch:
    """Items as rows of ITEM_SCHEMA."""
    columns: dict[str, Any] = dict(zip(SourceItem._fields, zip(*items, strict=True), strict=True))
    columns["locator"] = [_locator_row(locator) for locator in columns["locator"]]
    columns["kept"] = [orjson.dumps(kept) if kept else None for kept in columns["kept"]]
    arrays = [pa.array(columns[field.name], field.type) for field in ITEM_SCHEMA]
    return pa.record_batch(arrays, schema=ITEM_SCHEMA)


def endings(record_ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """The endings of the names of items in lower case, or "no ending"."""
    ends = pc.struct_field(pc.extract_regex(record_ids, _ENDING), "end")
    return pc.utf8_lower(pc.fill_null(ends, "no ending"))


_ROWS = 512  # that are Python objects at a time, of a kilobyte each


def items_in(table: pa.Table | pa.RecordBatch) -> Iterator[SourceItem]:
    """The items in rows of ITEM_SCHEMA."""
    for start in range(0, table.num_rows, _ROWS):
        part = table.slice(start, _ROWS)
        columns: dict[str, Any] = {name: part[name].to_pylist() for name in SourceItem._fields}
        locators, kept = columns["locator"], columns["kept"]
        columns["locator"] = [WHOLE_FILE if one is None else _locator(one) for one in locators]
        columns["kept"] = [tuple(orjson.loads(one)) if one else () for one in kept]
        yield from map(SourceItem, *columns.values())


def _locator_row(locator: Locator) -> dict[str, Any] | None:
    if locator == WHOLE_FILE:
        return None
    row = locator._asdict()
    row["gaps"] = [gap._asdict() for gap in locator.gaps]
    row["companions"] = [
        {"name": name, **{field: getattr(member, field) for field in _MEMBER_NAMES}}
        for name, member in locator.companions
    ]
    return row


def _locator(row: Any) -> Locator:
    gaps = tuple(ByteRange(**gap) for gap in row.pop("gaps"))
    companions = tuple((one.pop("name"), Locator(**one)) for one in row.pop("companions"))
    return Locator(gaps=gaps, companions=companions, **row)
