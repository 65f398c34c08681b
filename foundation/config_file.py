"""A file of options: TOML, one `name = value` line for each option, named as its flag.

    sources = ["photos"]
    label-column = "class"
    workers = 8
    stratify = true

What a value may be follows from the declarations; see `foundation.options`.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from foundation.errors import InputError, UsageError, file_error
from foundation.options import check_value, flag_of
from foundation.wording import did_you_mean

_MAX_BYTES = 1 << 20  # 1 MiB; a name like /dev/zero has no end


def read_config(
    path: str, fields: Iterable[dataclasses.Field[Any]], further: Mapping[str, type] | None = None
) -> dict[str, Any]:
    """The options in a file, by field name.

    Args:
        path: Path of the file.
        fields: The options that it may have.
        further: What else it may have, by name: str, or tuple for a list of text.

    Raises:
        InputError: It cannot be read.
        UsageError: It is not TOML, or has an option that is unknown or has a wrong value.
    """
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise UsageError(f"{path} is not TOML: {reason}. Write lines such as seed = 1.") from None
    known: dict[str, Any] = {**{field.name: field for field in fields}, **(further or {})}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        where = f"{path}{_line_of(key, text)}"
        if isinstance(value, dict):
            raise UsageError(f"{key!r} in {where} is a table. Write options as lines, not tables.")
        if name not in known:
            raise UsageError(f"Unknown option {key!r} in {where}. {nearest(name, known)}")
        if name in values:
            raise UsageError(f"{where} repeats {key!r}. Remove one of the lines.")
        option = known[name]
        if isinstance(option, dataclasses.Field):
            values[name] = _converted(option, value, key, where)
        else:
            values[name] = _text(value, key, where) if option is str else _list(value, key, where)
    return values


def key_of(name: str) -> str:
    """The name of an option in a file: that of its flag."""
    return flag_of(name).removeprefix("--")


def read_text(path: str) -> str:
    """The text of a file of options.

    Raises:
        InputError: It cannot be read, or is too large.
        UsageError: It is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise file_error(error, path, resumes=False) from None
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path} is larger than a file of options can be. Choose another file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None


def _line_of(key: str, text: str) -> str:
    """Where a key is written, as far as that is plain; "" if it is not."""
    match = re.search(rf"^[ \t]*\[?[\"']?{re.escape(key)}[\"']?[ \t]*[=\].]", text, re.MULTILINE)
    return f", line {text.count(chr(10), 0, match.start()) + 1}" if match else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown option: the one that may be meant, by its name in a file."""
    near = did_you_mean(key_of(name), map(key_of, known)).rstrip()
    return near or "Remove it, or see --help for all."


def _converted(field: dataclasses.Field[Any], value: Any, key: str, where: str) -> Any:
    """A value of TOML as the option has it.

    Raises:
        UsageError: It is of another type, or not a value of this option.
    """
    kind = field.metadata["type"]
    if kind is bool:
        if not isinstance(value, bool):
            raise _wrong(key, value, where, "true or false")
        return value
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, (int, kind)):
            raise _wrong(key, value, where, "an integer" if kind is int else "a number")
        try:
            value = kind(value)
        except OverflowError:
            raise _wrong(key, value, where, "a number") from None
    elif isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # quality = 90, as it is typed on a command line
    else:
        value = _text(value, key, where)
    check_value(field, value, key, where)
    return value


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(key, value, where, "text in quotes, as it is typed after the flag")
    if "\0" in value:
        raise UsageError(f"{key} in {where} has a zero byte. Remove it.")
    return value


def _list(value: Any, key: str, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _wrong(key, value, where, 'a list of text, such as ["a", "b"]')
    return tuple(_text(one, key, where) for one in value)


def _wrong(key: str, value: Any, where: str, wanted: str) -> UsageError:
    return UsageError(f"{key} is {str(value)[:60]} in {where}. Write {wanted}.")
