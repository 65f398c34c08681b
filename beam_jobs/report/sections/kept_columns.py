"""What the kept columns hold: how many records have a value, its range, and some of the values."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Mapping

from beam_jobs.report.finished_set import RecordLocation, locations_of
from beam_jobs.report.markup import plain_number
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from foundation.wording import counted
from shard_format import Feature
from shard_format.example import Values
from shard_format.feature_values import from_stored

# Kept columns are in the records, not in the index, so their summary reads some records. They are
# in shuffled order, so the first ones are a fair sample.
_MOST_RECORDS = 1000
_MOST_BYTES = 64 << 20  # 64 MiB
_MOST_EXAMPLES = 3


def content(reported: ReportedSet) -> Content:
    """One row per column, for a set that was built with --keep-columns."""
    lists = reported.kept_lists
    if not reported.kept_columns and not lists:
        return None
    columns: dict[str, list[Values]] = {feature.name: [] for feature in reported.kept_columns}
    sizes: dict[str, list[int]] = {feature.name: [] for feature in lists}
    read = 0
    for _, values in reported.read(_first_locations(reported)):
        read += 1
        for feature in reported.kept_columns:
            columns[feature.name].append(_cell(feature, values))
        for feature in lists:
            sizes[feature.name].append(_size(feature, values))
    if not read:
        return "There are no records whose columns could be summarized."
    over = f"Over the first {read:,} of {reported.records:,} records in shuffled order."
    if read == reported.records:
        over = f"Over all {counted(read, 'record')}."
    rows = []
    for feature in reported.kept_columns:
        column: list[bytes | int | float] = [cell[0] for cell in columns[feature.name] if cell]
        counts = collections.Counter(column)
        numbers = f"{len(column) / read:.1%}", f"{len(counts):,}", _range(column)
        rows.append((feature, numbers, counts.most_common(_MOST_EXAMPLES)))
    for feature in lists:
        own = sizes[feature.name]
        unit = "value" if feature.dims else "byte"
        numbers = f"{sum(map(bool, own)) / read:.1%}", "", _span(min(own), max(own), unit)
        rows.append((feature, numbers, []))
    return {"over": over, "rows": rows}


def _cell(feature: Feature, values: Mapping[str, Values]) -> Values:
    """A list of the value; empty without one."""
    stored = values.get(feature.name, [])
    if not feature.is_tensor_bytes or not stored:
        return stored
    return [float(from_stored(feature, [stored]))]  # float64, of which an example has the bytes


def _size(feature: Feature, values: Mapping[str, Values]) -> int:
    """Length of a list, rows of a tensor along its first dimension, or bytes of an image."""
    try:
        return len(from_stored(feature, [values[part.name] for part in feature.stored]))
    except (KeyError, ValueError):  # shardmill verify reports it
        return 0


def _first_locations(reported: ReportedSet) -> Iterator[RecordLocation]:
    """Yields the first records, split after split, within the bounds on records and bytes."""
    read, size = 0, 0
    for split in reported.manifest.splits:
        for location in locations_of(split, reported.index(split).slice(0, _MOST_RECORDS - read)):
            read, size = read + 1, size + location.length
            if size > _MOST_BYTES and read > 1:
                return
            yield location


def _span(least: int, greatest: int, unit: str) -> str:
    spread = f"{least:,} to " if least < greatest else ""
    return f"{spread}{counted(greatest, unit)}"


def _range(values: list[bytes | int | float]) -> str:
    """The least and the greatest number with their mean, or the lengths of texts."""
    texts = [len(value.decode("utf-8", "replace")) for value in values if isinstance(value, bytes)]
    if texts:
        return _span(min(texts), max(texts), "character")
    numbers = [value for value in values if not isinstance(value, bytes) and math.isfinite(value)]
    if not numbers:
        return ""
    mean = math.fsum(numbers) / len(numbers)
    return f"{plain_number(min(numbers))} to {plain_number(max(numbers))}, mean {mean:.6g}"
