"""Files of record ids: of records that `compact --remove` takes out, or `--exclude-ids` keeps out.

A record id is a path, which may contain any character. So a line ends with a line feed and nothing
else, and an id that a line cannot hold is written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from foundation import storage
from foundation.errors import file_error
from foundation.storage import Place
from foundation.wording import counted
from shard_format import InputError

_JSON_SUFFIXES = (".jsonl", ".ndjson")
_BOM = b"\xef\xbb\xbf"
_SHOWN_IDS = 5


def read_ids(file: Place) -> frozenset[str]:
    r"""Reads record ids from a file: a line each, or JSON Lines by the suffix of its name.

    A line of JSON is a string or an object with the id as its "record_id". Empty lines and a byte
    order mark at the beginning are skipped.

    Raises:
        InputError: The file cannot be read, has no id, or a line of it is malformed.
    """
    try:
        content = storage.read_bytes(file)
    except OSError as error:
        raise file_error(error, str(file)) from error
    is_json = file.name.lower().endswith(_JSON_SUFFIXES)
    ids = set()
    for number, line in enumerate(content.removeprefix(_BOM).split(b"\n"), start=1):
        if not line or (is_json and not line.strip()):
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {number:,} of {file} is not UTF-8: byte {error.start} is "
                f"0x{line[error.start]:02x}. Write one record id per line, in UTF-8."
            ) from error
        ids.add(_id_in_json(text, number, file) if is_json else text)
    if not ids:
        raise InputError(f"{file} has no record id. Write one per line.")
    return frozenset(ids)


def _id_in_json(line: str, number: int, file: Place) -> str:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    record_id = value.get("record_id") if isinstance(value, dict) else value
    try:
        if isinstance(record_id, str) and record_id.encode():
            return record_id
    except UnicodeEncodeError:
        pass  # half a surrogate pair
    raise InputError(
        f"Line {number:,} of {file} has no record id: {line[:80]!r}. Write a JSON string such as "
        '"a/b.jpg", or an object such as {"record_id": "a/b.jpg"}.'
    )


def missing_error(
    base: Place, missing: list[str], num_ids: int, near: Collection[str]
) -> InputError:
    """The message for ids that no record has.

    Args:
        base: Directory of the set.
        missing: The ids, sorted.
        num_ids: Number of ids that were asked for.
        near: Ids that records have, out of the missing ones without white space around them.
    """
    shown = ", ".join(map(repr, missing[:_SHOWN_IDS]))
    more = f" and {len(missing) - _SHOWN_IDS:,} more" if len(missing) > _SHOWN_IDS else ""
    alike = next((name for name in missing if name.strip() in near), None)
    hint = ""
    if alike is not None:
        hint = (
            f"The set has {alike.strip()!r}, without the white space of {alike!r}: a line ends "
            r"with '\n' alone, not with '\r\n'. "
        )
    return InputError(
        f"{base} has no record with {counted(len(missing), 'id')} of {num_ids:,}: {shown}{more}. "
        f"Nothing was removed. {hint}Correct the ids, or pass --missing-ok to leave these out."
    )
