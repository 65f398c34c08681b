"""A folder of pictures with a table that labels them: --labels labels.csv.

Rows and files are both sorted and then gone through side by side, so that a million of them need no
dictionary. With several sources, paths begin with the name of the source, as record ids do.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.options import ImageOptions
from beam_jobs.options.values import SPLIT_BY_FOLDER
from beam_jobs.sources.base import Item, Source
from beam_jobs.sources.cells import Said
from beam_jobs.sources.class_folders import folder_prefixes, walk_root
from beam_jobs.sources.label_table import read_label_table
from beam_jobs.sources.naming import (
    LABEL_SEPARATOR,
    SPLIT_NAMES,
    join_labels,
    readable_name,
    split_name,
)

_BATCH_ROWS = 8192


class _Row(NamedTuple):
    """What the table says of one path."""

    key: bytes  # the path below the root, with 0x00 for "/"
    said: Said
    refused: str


class Table(Source):
    """Every file that the table names, with what it says of it.

    A row without file, a file without row and a path that leads elsewhere are listed as refused.
    """

    options: ImageOptions

    def __init__(self, options: ImageOptions) -> None:
        super().__init__(options)
        self._labels = options.labels or ""  # given: the options see to it

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        named = folder_prefixes(roots)
        table = read_label_table(self._labels, self.options)
        yield from _without_path(table, os.path.basename(self._labels))
        table = table.filter(pc.is_valid(table["key"]))
        for prefix, root in named:
            start = os.fsencode(prefix).replace(b"/", b"\0")
            inside = pc.starts_with(table["key"], start)
            rows = self._sorted(table.filter(inside) if prefix else table, len(start))
            yield from self._joined(prefix, root, rows, on_ignored)
            if prefix:
                table = table.filter(pc.invert(inside))
        if named[0][0]:
            for row in self._sorted(table, 0):
                yield _missing(row, "", b"")

    def _joined(
        self, prefix: str, root: Path, rows: Iterator[_Row], on_ignored: Callable[[str], None]
    ) -> Iterator[Item]:
        """Files and rows of one root side by side, both in the order of their keys."""
        start = os.fsencode(root)
        row = next(rows, None)
        for item, folders in walk_root(prefix, root, on_ignored):
            key = item.path[len(start) :].lstrip(b"/").replace(b"/", b"\0")
            while row is not None and row.key < key:
                yield _missing(row, prefix, start)
                row = next(rows, None)
            if row is not None and row.key == key:
                yield self._labelled(item, folders, row)
                row = next(rows, None)
            elif self._is_the_table(item):
                on_ignored(item.record_id)
            else:
                refused = item.refused or "no-row: no row of the table names this file"
                yield item._replace(refused=refused)
        while row is not None:
            yield _missing(row, prefix, start)
            row = next(rows, None)

    def _labelled(self, item: Item, folders: tuple[str, ...], row: _Row) -> Item:
        label, group, split = row.said
        refused = item.refused or row.refused
        if self.options.split == SPLIT_BY_FOLDER:
            split = split_name(folders[0]) if folders else None
            if split is None and not refused:
                expected = ", ".join(SPLIT_NAMES)
                refused = f"no-split-folder: with --split folders it must lie in one of {expected}"
        if label is None and not self.options.no_labels and not refused:
            refused = f"no-label: its row has nothing in {self.options.label_column!r}"
        return item._replace(label=label, group=group, split=split, refused=refused)

    def _is_the_table(self, item: Item) -> bool:
        try:
            return os.path.samefile(item.path, os.fsencode(self._labels))
        except OSError:
            return False

    def _sorted(self, table: pa.Table, prefix_bytes: int) -> Iterator[_Row]:
        """One row per path, in order; the prefix is cut off the keys."""
        table = table.combine_chunks()
        order = pc.sort_indices(table["key"]) if len(table) else pa.array([], pa.uint64())
        for _, equal in itertools.groupby(_taken(table, order), key=lambda values: values[0]):
            yield self._one_row(list(equal), prefix_bytes)

    def _one_row(self, equal: list[tuple[bytes, Said, str]], prefix_bytes: int) -> _Row:
        """What all rows of one path say together."""
        key, said, refused = equal[0]
        if any(other[1:] != (said, refused) for other in equal[1:]):
            said, refused = _united(equal, self.options)
        return _Row(key[prefix_bytes:], said, refused)


def _taken(table: pa.Table, order: pa.Array) -> Iterator[tuple[bytes, Said, str]]:
    for start in range(0, len(order), _BATCH_ROWS):
        part = table.take(order.slice(start, _BATCH_ROWS))
        columns = [part[name].to_pylist() for name in ("key", "label", "group", "split", "refused")]
        for key, label, group, split, refused in zip(*columns, strict=True):
            yield key, Said(label, group, split), refused


def _united(equal: list[tuple[bytes, Said, str]], options: ImageOptions) -> tuple[Said, str]:
    """The rows of one path that differ: their labels together, where there may be several."""
    first = equal[0][1]
    refusals = sorted({refused for _, _, refused in equal if refused})
    if refusals:
        return first, refusals[0]
    rest = {said[1:] for _, said, _ in equal}
    labels = {said.label for _, said, _ in equal if said.label is not None}
    if options.multi_label and len(rest) == 1 and labels:
        names = itertools.chain.from_iterable(
            label.split(LABEL_SEPARATOR) for label in labels if label
        )
        return first._replace(label=join_labels(names)), ""
    shown = sorted({" ".join(f"{value!a}" for value in said if value) for _, said, _ in equal})
    detail = f"{len(equal)} rows name it and say {', '.join(shown[:5])}"
    return first._replace(label=None), f"contradictory-rows: {detail}"


def _missing(row: _Row, prefix: str, root: bytes) -> Item:
    """A refused record for a row whose file is not there."""
    parts = row.key.split(b"\0")
    record_id = prefix + "/".join(readable_name(part) for part in parts)
    reason = "missing-file: a row names it, and no file that is not hidden has this path"
    path = os.path.join(root, *parts)
    return Item(record_id, path, row.said.label, 0, 0, reason)


def _without_path(table: pa.Table, name: str) -> Iterator[Item]:
    """A refused record for every row that names no file that could be."""
    rows = table.filter(pc.is_null(table["key"]))
    for refused, row in zip(rows["refused"].to_pylist(), rows["row"].to_pylist(), strict=True):
        yield Item(f"{readable_name(os.fsencode(name))}/{row:09d}", b"", None, 0, 0, refused)
