"""The JSON types of a manifest and of a build.json, checked once, so that no user of them has to.

A matching root hash shows that a manifest was not changed by accident, not that shardmill wrote
it: anybody can compute one over `"bytes": "many"`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_MAX_DEPTH = 32  # of options and statistics; ours have 5 levels
_MAX_INTEGER = 1 << 63
_SHOWN_CHARACTERS = 60  # of a wrong value
_SHA256 = re.compile("[0-9a-f]{64}")

# Raises `WrongType` if the value, found at the path, is not of the type.
Check = Callable[[Any, str], None]


class WrongType(Exception):
    """A value of another type than FORMAT.md says; the message says where and what."""

    def __init__(self, path: str, expected: str, found: object) -> None:
        try:
            shown = repr(found)
        except (RecursionError, ValueError):  # nested too deep, or of too many digits
            shown = type(found).__name__
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}..."
        super().__init__(f"{path} is {shown}, not {expected}")


def text(value: Any, path: str) -> None:
    """A string."""
    if not isinstance(value, str):
        raise WrongType(path, "a string", value)


def sha256(value: Any, path: str) -> None:
    """A SHA-256 in hex: repair names files by it."""
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise WrongType(path, "a SHA-256 of 64 hexadecimal digits", value)


def sha256_or_empty(value: Any, path: str) -> None:
    """A SHA-256 in hex, or an empty string."""
    if value != "":
        sha256(value, path)


def flag(value: Any, path: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise WrongType(path, "true or false", value)


def integer(value: Any, path: str) -> None:
    """A signed 64-bit integer."""
    if type(value) is not int or not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise WrongType(path, "a 64-bit integer", value)


def count(value: Any, path: str) -> None:
    """A 64-bit integer from 0."""
    if type(value) is not int or not 0 <= value < _MAX_INTEGER:
        raise WrongType(path, "an integer from 0", value)


def between(least: int, most: int) -> Check:
    """An integer of a range."""

    def checked(value: Any, path: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise WrongType(path, f"an integer from {least} to {most}", value)

    return checked


def number(value: Any, path: str) -> None:
    """A 64-bit integer, or a finite float."""
    if not (type(value) is float and math.isfinite(value)):
        if type(value) is not int or not -_MAX_INTEGER <= value < _MAX_INTEGER:
            raise WrongType(path, "a number", value)


def anything(value: Any, path: str, depth: int = 0) -> None:
    """Any value that is not nested too deep to be printed, with integers of 64 bits."""
    if depth > _MAX_DEPTH:
        raise WrongType(path, f"nested less than {_MAX_DEPTH} levels deep", value)
    if type(value) is int:
        integer(value, path)
    if isinstance(value, dict):
        for name, item in value.items():
            anything(item, f"{path}.{name}", depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            anything(item, f"{path}[{position}]", depth + 1)


def optional(check: Check) -> Check:
    """Of a type, or null."""

    def checked(value: Any, path: str) -> None:
        if value is not None:
            check(value, path)

    return checked


def list_of(check: Check, length: int | None = None) -> Check:
    """A list of values of a type; of any length if None."""

    def checked(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise WrongType(path, "a list", value)
        if length is not None and len(value) != length:
            raise WrongType(path, f"a list of {length}", value)
        for position, item in enumerate(value):
            check(item, f"{path}[{position}]")

    return checked


def object_of(
    required: Mapping[str, Check],
    optional: Mapping[str, Check] | None = None,
    others: Check | None = None,
) -> Check:
    """An object.

    Args:
        required: Types by key.
        optional: Types of keys that may be missing.
        others: Type of the values of all other keys; None if there must not be any.
    """
    known = {**required, **(optional or {})}

    def checked(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise WrongType(path, "an object", value)
        if missing := required.keys() - value.keys():
            raise WrongType(path, f"an object with {', '.join(sorted(missing))}", value)
        for name, item in value.items():
            check = known.get(name, others)
            where = f"{path}.{name}" if path else name
            if check is None:
                raise WrongType(path or "the manifest", f"an object without {name}", value)
            check(item, where)

    return checked


_channels = list_of(number, length=3)  # red, green, blue
_pixels = object_of(
    {"mean": _channels, "std": _channels}, {"count": count, "min": _channels, "max": _channels}
)


def _pixels_or_none(value: Any, path: str) -> None:
    if isinstance(value, dict) and not value.get("count", len(value)):
        anything(value, path)  # no pixel was counted, so there is no mean
    else:
        _pixels(value, path)


def _class_weights(value: Any, path: str) -> None:
    """By class; in the first sets a list."""
    check = list_of(number) if isinstance(value, list) else object_of({}, others=number)
    check(value, path)


_column_summary = object_of(  # of integers
    {},
    {
        "min": number,
        "max": number,
        "mean": number,
        "histogram": object_of({"edges": list_of(number), "counts": list_of(count)}),
    },
    others=anything,
)


def _other_statistic(value: Any, path: str) -> None:
    """The summary of a column, or something that another version added: it is shown at most."""
    check = _column_summary if isinstance(value, dict) else anything
    check(value, path)


_further_label = object_of(
    {},
    {"class_counts": object_of({}, others=count), "class_weights": object_of({}, others=number)},
)
_shard = object_of({"file": text, "records": count, "bytes": count, "sha256": sha256})


def _shards(value: Any, path: str) -> None:
    """The shards, or where they are in a file their number."""
    check = count if isinstance(value, int) else list_of(_shard)
    check(value, path)


_split = object_of(
    {
        "records": count,
        "bytes": count,
        "statistics": object_of(
            {},
            {
                "class_counts": object_of({}, others=count),
                "class_weights": _class_weights,
                "labels": object_of({}, others=_further_label),
                "pixels": _pixels_or_none,
            },
            others=_other_statistic,
        ),
        "shards": _shards,
    },
    {"index": list_of(object_of({"file": text, "shards": count}))},
)

_feature = object_of(
    {"name": text, "kind": text, "shape": list_of(integer)},
    {"encoding": text, "class_names": list_of(text), "late": flag, "ragged": flag},
)

_ledger = object_of(
    {
        "read": count,
        "kept": count,
        "duplicates": count,
        "filtered": count,
        "quarantined": count,
        "reasons": object_of({}, others=count),
    },
    {
        "repeated": count,
        "not_enlarged": count,
        "excluded": count,
        "dropped_objects": object_of({}, others=count),
    },
)

_vocabulary = object_of(
    {},
    {"size": count, "unknown": optional(count), "pad": optional(count), "end": optional(count)},
    others=anything,
)

_file = object_of({"bytes": count, "sha256": sha256})
_generation = object_of({"folder": text, "root_hash": sha256, "view": sha256_or_empty})


def _split_option(value: Any, path: str) -> None:
    """Shares by split, or where the splits are given, such as "folders"."""
    check = text if isinstance(value, str) else object_of({}, others=number)
    check(value, path)


# What any command computes with, or looks up; each is checked where an option declares it too.
_config = object_of(
    {},
    {
        "record_type": text,
        "seed": count,
        "num_shards": optional(between(1, 10**7)),
        "shard_size": between(1, _MAX_INTEGER - 1),
        "split": _split_option,
        "balance": text,
        "dedup": text,
        "dedup_parts": text,
        "resize": text,
        "resize_filter": text,
        "enlarge": flag,
        "background": text,
        "pack": optional(between(1, 1 << 20)),
        "packing": text,
        "vocabulary": optional(_vocabulary),
    },
    others=anything,
)

# Everything but the root hash. Raises `WrongType`.
check_manifest = object_of(
    {
        "format_version": integer,
        "name": text,
        "schema": object_of({"record_type": text, "features": list_of(_feature)}),
        "splits": object_of({}, others=_split),
        "ledger": _ledger,
        "config": _config,
        "files": object_of({}, others=_file),
    },
    {"generations": object_of({"home": text, "sets": list_of(_generation)})},
)

_options = object_of(
    {}, {name: list_of(text) for name in ("sources", "repaired", "notes")}, others=anything
)

# What any command uses of a build.json; other keys are shown at most. Raises `WrongType`.
check_build_types = object_of(
    {},
    {
        "build_id": text,
        "compacted": list_of(text),
        "options": _options,
        "merged_options": list_of(_options),
        "removals": list_of(object_of({}, others=anything)),
        "fingerprints": object_of({}, others=_file),
        "seconds": optional(number),
        "units": count,
        "ignored": count,
        "notes": list_of(text),
        "warnings": list_of(text),
        "root_hash": sha256,
        "manifest_sha256": sha256,
    },
    others=anything,
)
