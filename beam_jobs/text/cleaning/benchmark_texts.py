"""The texts of a benchmark, from the files it is published as."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import orjson

from beam_jobs.text.cleaning.files import InputFile
from shard_format import InputError

_MAX_FIELD = 1 << 26  # characters of a cell; the module's own bound of 128 KiB is too low for texts
_EMPTY_LINES = re.compile(r"\n\s*\n")


def benchmark_texts(file: InputFile) -> Iterator[str]:
    """Every text of a file, by its name's ending.

    Of .jsonl and .json every string, however deep, but no key; of .csv and .tsv every cell; of any
    other file what stands between empty lines.

    Raises:
        InputError: The file is unreadable, no UTF-8, or not what its ending says.
    """
    text = file.text()
    kind = PurePath(file.path).suffix.lower()
    if kind == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield from _strings(_json(file, line, f"line {number}"))
    elif kind == ".json":
        yield from _strings(_json(file, text, "the file"))
    elif kind in (".csv", ".tsv"):
        yield from _cells(file, text, "\t" if kind == ".tsv" else ",")
    else:
        yield from _EMPTY_LINES.split(text)


def _json(file: InputFile, text: str, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"a file of --decontaminate must hold what its ending says, got no JSON in {where} of "
            f"{file.path}: {error}. Mend or rename it."
        ) from None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _cells(file: InputFile, text: str, delimiter: str) -> Iterator[str]:
    before = csv.field_size_limit(_MAX_FIELD)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            yield from row
    except csv.Error as error:
        raise InputError(
            f"a file of --decontaminate must hold what its ending says, got a bad row in "
            f"{file.path}: {error}. Mend or rename it."
        ) from None
    finally:
        csv.field_size_limit(before)
