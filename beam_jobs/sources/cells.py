"""What a cell of a table, a field of JSON or a feature of an Example says of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import split_column
from beam_jobs.sources.naming import SPLIT_NAMES, join_labels, split_name

_BETWEEN_NAMES = "|"


class Said(NamedTuple):
    """What was said of one record; None where nothing was."""

    label: str | None = None
    group: str | None = None
    split: str | None = None


def wanted_columns(options: PreprocessOptions) -> dict[str, str]:
    """The columns that the options ask for, by what each is for: "label", "group", "split"."""
    wanted = {
        "label": None if options.no_labels else options.label_column,
        "group": options.group_by,
        "split": split_column(options.split),
    }
    return {use: column for use, column in wanted.items() if column is not None}


def text_of(value: Any) -> str | None:
    """A value as text, whole numbers without a fraction; None for null, NaN and blank text.

    Raises:
        Rejection: The value is no text and no number.
    """
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise Rejection("bad-label", f"{value[:40]!r} is no UTF-8") from None
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Rejection("bad-label", f"{value[:40]!a} is no text: it has half a character")
        return value if value.strip() else None
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a column of whole numbers with a gap is one of floats to pandas
    if isinstance(value, int | float):
        return str(value)
    raise Rejection("bad-label", f"{type(value).__name__} is neither text nor a number")


def label_of(value: Any, names: Sequence[str], options: PreprocessOptions) -> str | None:
    """The label that a value stands for; None if it stands for none.

    Args:
        value: Text, a number, or a list of them.
        names: Of the classes, if numbers are indexes into them; -1 then means "none".
        options: The job: whether a record may have several labels.

    Raises:
        Rejection: The value is of another type, or there are several labels and may be one.
    """
    several = list(value) if isinstance(value, list | tuple) else [value]
    if isinstance(value, str | bytes) and options.multi_label:  # bytes: CSV, .cls, Examples
        several = [name.strip() for name in (text_of(value) or "").split(_BETWEEN_NAMES)]
    found = [name for name in (_class_name(one, names) for one in several) if name is not None]
    if options.multi_label and (found or isinstance(value, list | tuple)):
        return join_labels(found)  # "" of an empty list: a picture of none of the classes
    if not found:
        return None
    if len(found) > 1:
        raise Rejection(
            "several-labels", f"it has {len(found)} labels, {found[:5]}: --multi-label keeps them"
        )
    return found[0]


def split_of(value: Any) -> str | None:
    """The split that a value of the split column names.

    Raises:
        Rejection: It names none.
    """
    text = text_of(value)
    split = None if text is None else split_name(text)
    if split is None:
        expected = ", ".join(SPLIT_NAMES)
        raise Rejection("no-split", f"the split column says {text!r}, which is none of {expected}")
    return split


def said_by(fields: dict[str, Any], names: Sequence[str], options: PreprocessOptions) -> Said:
    """What the fields of one record say of it, by the names of columns.

    Raises:
        Rejection: One of them says what cannot be.
    """
    columns = wanted_columns(options)
    label = group = split = None
    if "label" in columns:
        label = label_of(fields.get(columns["label"]), names, options)
    if "group" in columns:
        group = text_of(fields.get(columns["group"]))
    if "split" in columns:
        split = split_of(fields.get(columns["split"]))
    return Said(label, group, split)


def _class_name(value: Any, names: Sequence[str]) -> str | None:
    if not names or not isinstance(value, int) or isinstance(value, bool):
        return text_of(value)
    if value == -1:
        return None  # Hugging Face and TFDS write it where the label is unknown
    if not 0 <= value < len(names):
        raise Rejection("bad-label", f"there are {len(names)} class names, got the index {value}")
    return names[value]
