"""Formats of files with documents in them, by the value of --format.

    base          what a format is: parts of files, documents that are found, parsed or refused
    reading       from the files of a unit to documents, with mended ones in place of refused ones
    content       which format a file has
    decoding      bytes to text
    lines         the lines of a file, or of a stretch of one
    fields        what a row or an object says: text, label, group, split, kept columns
    columnar      what Parquet and Arrow have in common
    warc_records  the framing of WARC, gzip_members that of its compressed form, and http_body what
                  is in responses

A format is one file more, and one line in FORMATS.
"""

from __future__ import annotations

from beam_jobs.documents.arrow import Arrow
from beam_jobs.documents.base import (
    DOCUMENT_FIELDS,
    KEPT_PREFIX,
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
)
from beam_jobs.documents.html import Html
from beam_jobs.documents.json_file import Json
from beam_jobs.documents.json_lines import JsonLines
from beam_jobs.documents.parquet import Parquet
from beam_jobs.documents.plain import Plain
from beam_jobs.documents.separated import Csv, Tsv
from beam_jobs.documents.tfrecord import TfRecord
from beam_jobs.documents.warc import Warc

FORMATS: dict[str, type[Format]] = {
    "txt": Plain,
    "html": Html,
    "json": Json,
    "jsonl": JsonLines,
    "csv": Csv,
    "tsv": Tsv,
    "warc": Warc,
    "parquet": Parquet,
    "arrow": Arrow,
    "tfrecord": TfRecord,
}

__all__ = [
    "DOCUMENT_FIELDS",
    "FORMATS",
    "KEPT_PREFIX",
    "Document",
    "Format",
    "Found",
    "Ignored",
    "Part",
    "RefusedDocument",
]
