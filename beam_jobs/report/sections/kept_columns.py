"""What the kept columns hold: how many records have a value, its range, and some of the values."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator

from beam_jobs.report.finished_set import RecordLocation, locations_of
from beam_jobs.report.markup import Html, element, escape, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from foundation.wording import counted
from shard_format import Feature
from shard_format.example import Values

# Kept columns are in the records, not in the index, so their summary reads some records. They are
# in shuffled order, so the first ones are a fair sample.
_MOST_RECORDS = 1000
_MOST_BYTES = 64 << 20  # 64 MiB
_MOST_EXAMPLES = 3
_EXAMPLE_CHARACTERS = 60


def applies(reported: ReportedSet) -> bool:
    """Returns whether the set was built with --keep-columns."""
    return bool(reported.kept_columns)


def content(reported: ReportedSet) -> Html:
    """Returns one row per column."""
    columns: dict[str, list[Values]] = {feature.name: [] for feature in reported.kept_columns}
    read = 0
    for _, values in reported.read(_first_locations(reported)):
        read += 1
        for name, found in columns.items():
            found.append(values.get(name, []))
    if not read:
        return note("There are no records whose columns could be summarized.")
    over = f"Over the first {read:,} of {reported.records:,} records in shuffled order."
    if read == reported.records:
        over = f"Over all {counted(read, 'record')}."
    rows = [_row(feature, columns[feature.name]) for feature in reported.kept_columns]
    head = ("column", "with a value", "distinct", "range", "most frequent values")
    return escape((note(over), table(head, rows, kind="kept-columns")))


def shown_value(value: bytes | int | float, limit: int) -> Html:
    """A value of a kept column: text from the corpus in at most `limit` characters, or a number."""
    if isinstance(value, bytes):
        # A code point takes 4 bytes at most; one that was cut is left out.
        return foreign(value[: 4 * limit + 4].decode("utf-8", "ignore"), limit)
    return escape(_number(value))


def _number(value: float) -> str:
    # Without a separator of thousands: an integer is a year or an id as often as a count.
    return f"{value}" if isinstance(value, int) else f"{value:.6g}"


def _first_locations(reported: ReportedSet) -> Iterator[RecordLocation]:
    """Yields the first records, split after split, within the bounds on records and bytes."""
    read, size = 0, 0
    for split in reported.manifest.splits:
        for location in locations_of(split, reported.index(split).slice(0, _MOST_RECORDS - read)):
            read, size = read + 1, size + location.length
            if size > _MOST_BYTES and read > 1:
                return
            yield location


def _row(feature: Feature, records: list[Values]) -> tuple[object, ...]:
    values: list[bytes | int | float] = [found[0] for found in records if found]
    counts = collections.Counter(values)
    examples = [
        element("li", shown_value(value, _EXAMPLE_CHARACTERS), element("small", f" {count:,}"))
        for value, count in counts.most_common(_MOST_EXAMPLES)
    ]
    return (
        (foreign(feature.name, 40), element("small", f" {feature.kind}")),
        f"{len(values) / len(records):.1%}",
        f"{len(counts):,}",
        _range(values),
        element("ul", examples, class_="values"),
    )


def _range(values: list[bytes | int | float]) -> str:
    """Returns the least and the greatest number with their mean, or the lengths of texts."""
    texts = [len(value.decode("utf-8", "replace")) for value in values if isinstance(value, bytes)]
    if texts:
        least, greatest = min(texts), max(texts)
        spread = f"{least:,} to " if least < greatest else ""
        return f"{spread}{counted(greatest, 'character')}"
    numbers = [value for value in values if not isinstance(value, bytes) and math.isfinite(value)]
    if not numbers:
        return ""
    mean = math.fsum(numbers) / len(numbers)
    return f"{_number(min(numbers))} to {_number(max(numbers))}, mean {mean:.6g}"
