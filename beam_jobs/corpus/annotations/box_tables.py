"""Tables with a row for each box: CSV, TSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_jobs.corpus.annotations.objects import AnnotatedObject, number_of, whole_number
from beam_jobs.corpus.annotations.store import AnnotationStore
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.table_rows import TableRows
from foundation.storage import Place
from foundation.wording import did_you_mean
from shard_format import InputError

# The columns of a table, each by the names that tools give it, in lower case.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "path": ("path", "filename", "file_name", "image", "image_path", "image_id", "imageid"),
    "label": ("label", "class", "name", "category", "class_name", "labelname"),
    "xmin": ("xmin", "x_min", "x1", "left"),
    "ymin": ("ymin", "y_min", "y1", "top"),
    "xmax": ("xmax", "x_max", "x2", "right"),
    "ymax": ("ymax", "y_max", "y2", "bottom"),
}
_OTHERS: dict[str, tuple[str, ...]] = {
    "width": ("width", "image_width"),
    "height": ("height", "image_height"),
    "crowd": ("isgroupof",),
}


def read_boxes(file: Place, store: AnnotationStore) -> None:
    """Reads a table of boxes: in pixels, or as shares of the image, as Open Images has them.

    A row without a box and a label says that an image has no object.

    Raises:
        InputError: It is no such table.
    """
    rows = TableRows(str(file), "--annotations")
    columns = _found_columns(file, rows.names)
    known: set[str] = set()
    for fields in rows.rows(sorted(columns.values())):
        if isinstance(fields, Rejection):
            raise InputError(f"--annotations {file}: {fields.detail}. Correct the table.")
        row = {use: _text(fields.get(name)) for use, name in columns.items()}
        path = row["path"]
        if path not in known:
            known.add(path)
            width, height = (whole_number(row.get(side)) for side in ("width", "height"))
            store.add_image(path, path, width, height)
        box = tuple(number_of(row[side]) for side in ("ymin", "xmin", "ymax", "xmax"))
        if not row["label"] and all(not row[side] for side in ("xmin", "ymin", "xmax", "ymax")):
            continue
        if row["label"]:
            store.add_class(row["label"])
        crowd = row.get("crowd", "0") == "1"
        store.add_object(path, AnnotatedObject(row["label"], box, is_crowd=crowd))


def _found_columns(file: Place, names: Sequence[str]) -> dict[str, str]:
    if not names:
        raise InputError(
            f"--annotations {file} has no line with the names of its columns, or is JSON Lines. "
            "Make a CSV, TSV or Parquet table of it."
        )
    columns = {use: _first(tried, names) for use, tried in _COLUMNS.items()}
    missing = [use for use, name in columns.items() if not name]
    if missing:
        near = did_you_mean(missing[0], names)
        raise InputError(
            f"--annotations {file} has no column {missing[0]!r}, only {', '.join(names)}. {near}A "
            f"table of boxes has {', '.join(_COLUMNS)}."
        )
    others = {use: _first(tried, names) for use, tried in _OTHERS.items()}
    return columns | {use: name for use, name in others.items() if name}


def _first(tried: Sequence[str], names: Sequence[str]) -> str:
    lower = {name.strip().lower(): name for name in names}
    return next((lower[one] for one in tried if one in lower), "")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    return "" if value is None else str(value)
