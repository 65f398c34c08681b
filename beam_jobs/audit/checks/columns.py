"""Columns that say nothing, and columns and folders that say everything about the label."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.audit.audited_set import AuditedSet
from beam_jobs.audit.checks.base import Check, flagged
from beam_jobs.columns import IntArray, run_starts

_LEAST_RECORDS = 20  # of which less can be said
_BINS = 256  # of a number with more values
_MOST_FOLDERS = 6  # levels of a path
_OWN_FOLDER = 0.99  # of the records: a folder with the name of the class is where it comes from


def _constants(audited: AuditedSet, threshold: float) -> pa.Table | None:
    """Kept columns and the label, in the whole set or in one of several splits."""
    kept = {one.name for one in audited.finished.kept_columns}
    names = [name for name in audited.scalars() if name in kept]
    names += ["label"] if audited.label() else []
    if not names:
        return None
    rows: list[tuple[float, str, str | None, str | None]] = []
    for name in names:
        for split, values in _parts(audited, name):
            share, value = _commonest(values)
            if share >= threshold:
                rows.append((share, name, _shown(audited, name, value), split))
                if split is None:  # so it is in every split
                    break
    shares, columns, others, splits = zip(*rows, strict=True) if rows else ((),) * 4
    nobody = [None] * len(rows)
    return flagged(nobody, shares, column=columns, other=others, splits=splits)


def _parts(
    audited: AuditedSet, name: str
) -> Iterator[tuple[str | None, pa.ChunkedArray | pa.Array]]:
    """(None, a column of all records), and (split, that of its records) of each; no small one."""
    column = audited.column(name)
    if column is not None and len(column) >= _LEAST_RECORDS:
        yield None, column
        for split, begin, end in zip(
            audited.manifest.splits, audited.begins, audited.begins[1:], strict=False
        ):
            if end - begin >= _LEAST_RECORDS:
                yield split, column.slice(begin, end - begin)


def _commonest(column: pa.ChunkedArray) -> tuple[float, pa.Scalar]:
    """(share of the records, value) of the most frequent value; null is one."""
    counts = pc.value_counts(column)
    most = int(np.argmax(counts.field("counts").to_numpy()))
    return counts.field("counts")[most].as_py() / len(column), counts.field("values")[most]


def _shown(audited: AuditedSet, name: str, value: pa.Scalar) -> str | None:
    if name == "label" and value.is_valid:
        return str(audited.finished.class_names[value.as_py()])
    return str(value.as_py()) if value.is_valid else None


def _leaks(audited: AuditedSet, threshold: float) -> pa.Table | None:
    """Columns, and the folders of the sources, from which the label follows."""
    labels = audited.labels()
    known = np.flatnonzero(labels >= 0)
    labels = labels[known]
    if len(known) < _LEAST_RECORDS or len(np.unique(labels)) < 2:
        return None
    baseline = _right(np.zeros(len(labels), np.int64), labels)
    leaks = []
    for name, codes in _predictors(audited):
        skill = (_right(codes[known], labels) - baseline) / (1 - baseline)
        if skill >= threshold:
            leaks.append((skill, name))
    leaks.sort(reverse=True)
    nobody = [None] * len(leaks)
    return flagged(nobody, [skill for skill, _ in leaks], column=[name for _, name in leaks])


def _right(codes: IntArray, labels: IntArray) -> float:
    """The share of records whose label is that of most others with the same code.

    A record does not count for itself, else an id would predict every label.
    """
    classes = int(labels.max()) + 1
    pairs, counts = np.unique(codes * classes + labels, return_counts=True)
    order = np.lexsort((-counts, pairs // classes))
    groups, counts = pairs[order] // classes, counts[order]
    first = run_starts(groups)
    second = np.append(np.where(first[1:], 0, counts[1:]), 0)[first]
    most = counts[first]
    return float(most[most - 1 > second].sum() / len(labels))


def _predictors(audited: AuditedSet) -> Iterator[tuple[str, IntArray]]:
    """(name, [records] codes of equal or neighbouring values) of what may give it away."""
    for name in audited.scalars():
        column = audited.column(name)
        if column is not None:
            yield name, _codes(column)
    ids, labels = audited.column("record_id"), audited.labels()
    known = labels >= 0
    names = pa.array(audited.finished.class_names, pa.string())
    label = names.take(pa.array(labels, mask=~known))
    for level in range(_MOST_FOLDERS):
        folder = pc.struct_field(pc.extract_regex(ids, rf"^(?:[^/]*/){{{level}}}(?P<f>[^/]*)/"), 0)
        if (pc.sum(pc.equal(folder, label)).as_py() or 0) >= _OWN_FOLDER * known.sum():
            break  # the class is taken from it; folders below it are of one class anyway
        yield f"folder {level + 1} of the source", _codes(folder)


def _codes(column: pa.ChunkedArray) -> IntArray:
    """[n] a number for each value, or for each 256th of them if they are numbers and many."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not numbers or len(encoded.dictionary) <= _BINS:
        return np.asarray(pc.fill_null(encoded.indices, -1), np.int64) + 1
    values = np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan))
    bounds = np.nanquantile(values, np.linspace(0, 1, _BINS + 1)[1:-1])
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(bounds, values, side="right"))


CONSTANT = Check(
    "Constant columns",
    "At least {0:g} of the records of the set, or of a split, have the same value.",
    1,
    _constants,
)
LEAK = Check(
    "Columns that give the label away",
    "The label that most other records with the same value have is right so often that {0:g} of "
    "the errors of always answering the most frequent class are gone.",
    0.9,
    _leaks,
)
