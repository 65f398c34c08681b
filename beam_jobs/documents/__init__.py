"""Formats of files with documents in them, by the value of --format.

    base        what a format is: parts of files, documents that are found, parsed or refused
    reading     from the files of a unit to documents, with mended ones in place of refused ones
    decoding    bytes to text
    fields      what a row or an object says: text, label, group, split, kept columns

A format is one file more, and one line in FORMATS.
"""

from __future__ import annotations

from beam_jobs.documents.base import (
    DOCUMENT_FIELDS,
    KEPT_PREFIX,
    Document,
    Format,
    Found,
    Part,
    RefusedDocument,
)
from beam_jobs.documents.json_lines import JsonLines
from beam_jobs.documents.plain import Plain

FORMATS: dict[str, type[Format]] = {
    "txt": Plain,
    "jsonl": JsonLines,
}

__all__ = [
    "DOCUMENT_FIELDS",
    "FORMATS",
    "KEPT_PREFIX",
    "Document",
    "Format",
    "Found",
    "Part",
    "RefusedDocument",
]
