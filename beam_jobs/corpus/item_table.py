"""Source items as rows of Arrow tables: the listing on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.kept_values import kept_from_json, kept_json
from beam_jobs.corpus.record import WHOLE_FILE, ByteRange, Locator, SourceItem

ITEM_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("locator", pa.binary()),  # JSON; null for a whole file
        pa.field("block", pa.int64(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
        pa.field("kept", pa.binary()),  # JSON; null without values
        pa.field("replacement", pa.binary(), nullable=False),
    ]
)
# ".jpg", ".jsonl.gz"; of a part of a large file the ending of the file.
_ENDING = r"(?P<end>(?P<inner>\.\w{1,8})?\.(?P<codec>gz|zst|bz2|xz)|\.\w{1,8})(?P<part>/\d{12})?$"


def row_batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of values in the order of a schema."""
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(values, field.type) for values, field in columns]
    return pa.record_batch(arrays, schema=schema)


def item_batch(items: Sequence[SourceItem]) -> pa.RecordBatch:
    """Items as rows of ITEM_SCHEMA."""
    columns: dict[str, Any] = dict(zip(SourceItem._fields, zip(*items, strict=True), strict=True))
    columns["locator"] = [
        None if locator == WHOLE_FILE else orjson.dumps(locator, default=tuple)
        for locator in columns["locator"]
    ]
    columns["kept"] = [kept_json(kept) if kept else None for kept in columns["kept"]]
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
        columns["locator"] = [
            WHOLE_FILE if one is None else _locator(orjson.loads(one)) for one in locators
        ]
        columns["kept"] = [kept_from_json(one) if one else () for one in kept]
        yield from map(SourceItem, *columns.values())


def _locator(fields: Sequence[Any]) -> Locator:
    locator = Locator(*fields)
    return locator._replace(
        gaps=tuple(ByteRange(*gap) for gap in locator.gaps),
        companions=tuple((name, _locator(one)) for name, one in locator.companions),
    )
