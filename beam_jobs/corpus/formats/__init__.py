"""File formats, by the name that `--format` or `--source` takes.

base       Format, which a format implements: it finds records in a file and parses them
lines      the lines of a file, or of a split of one
columnar   what Parquet and Arrow have in common
warc_*     the framing of WARC and of its compressed form; http_response, the body of a response

To add one: write `beam_jobs/corpus/formats/NAME.py` with a `Format`, a line here, and its magic
bytes or its extension in `beam_jobs/corpus/sniffing.py`.
"""

from __future__ import annotations

from beam_jobs.corpus.formats.arrow import Arrow
from beam_jobs.corpus.formats.base import Format
from beam_jobs.corpus.formats.delimited import Csv, Tsv
from beam_jobs.corpus.formats.html import Html
from beam_jobs.corpus.formats.idx import Idx
from beam_jobs.corpus.formats.image_file import ImageFile
from beam_jobs.corpus.formats.json import Json, JsonLines
from beam_jobs.corpus.formats.parquet import Parquet
from beam_jobs.corpus.formats.plain_text import PlainText
from beam_jobs.corpus.formats.tfrecord import TfRecord
from beam_jobs.corpus.formats.warc import Warc

FORMATS: dict[str, type[Format]] = {
    "image": ImageFile,
    "txt": PlainText,
    "html": Html,
    "json": Json,
    "jsonl": JsonLines,
    "csv": Csv,
    "tsv": Tsv,
    "warc": Warc,
    "parquet": Parquet,
    "arrow": Arrow,
    "tfrecord": TfRecord,
    "idx": Idx,
}

__all__ = ["FORMATS", "Format"]
