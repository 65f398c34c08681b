"""File and archive formats of a corpus, by the name that --format and --source take.

Names alone: a format is imported when a file of it is read, so that --help stays fast. To add one,
write `beam_jobs/corpus/formats/NAME.py` with a `Format` (or `corpus/containers/NAME.py` with a
`Container`) and a line here.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class FileFormat(NamedTuple):
    """A format and how its files are recognized.

    Attributes:
        target: Module and class, "beam_jobs.corpus.formats.parquet:Parquet".
        kinds: The record types that it can hold; none for archives, which hold files.
        magic: Beginnings of such files; none if the text decides.
        extensions: Names of such files end with these; for files that are empty or damaged, and
            for text.
        is_record: Whether every file is one record, and is read as it is stored.
    """

    target: str
    kinds: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    extensions: tuple[str, ...] = ()
    is_record: bool = False

    def load(self) -> Any:
        """The class."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)


_FORMATS = "beam_jobs.corpus.formats"
_BOTH = ("image", "text")

FORMATS = {
    "image": FileFormat(
        f"{_FORMATS}.image_file:ImageFile",
        ("image",),
        (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"II*\0", b"MM\0*"),
        (
            *("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm", "avif"),
            *("heic", "heif", "hif"),
        ),
        is_record=True,
    ),
    "txt": FileFormat(
        f"{_FORMATS}.plain_text:PlainText",
        ("text",),
        extensions=("txt", "text", "md", "rst", "log"),
    ),
    "html": FileFormat(f"{_FORMATS}.html:Html", ("text",), extensions=("html", "htm", "xhtml")),
    "xml": FileFormat(f"{_FORMATS}.xml:Xml", ("text",), extensions=("xml", "rss", "atom", "tei")),
    "json": FileFormat(f"{_FORMATS}.json:Json", ("text",), extensions=("json",)),
    "jsonl": FileFormat(
        f"{_FORMATS}.json:JsonLines", ("text",), extensions=("jsonl", "ndjson", "jsonlines")
    ),
    "csv": FileFormat(f"{_FORMATS}.delimited:Csv", ("text",), extensions=("csv",)),
    "tsv": FileFormat(f"{_FORMATS}.delimited:Tsv", ("text",), extensions=("tsv", "tab")),
    "warc": FileFormat(
        f"{_FORMATS}.warc:Warc", ("text",), (b"WARC/0.", b"WARC/1."), extensions=("warc",)
    ),
    "parquet": FileFormat(f"{_FORMATS}.parquet:Parquet", _BOTH, (b"PAR1",), ("parquet",)),
    "arrow": FileFormat(
        f"{_FORMATS}.arrow:Arrow", _BOTH, (b"ARROW1", b"\xff\xff\xff\xff"), ("arrow", "feather")
    ),
    "array_record": FileFormat(
        f"{_FORMATS}.array_record:ArrayRecord", _BOTH, (b"\x83\xafp\xd1\r\x88J?",)
    ),
    "mds": FileFormat(f"{_FORMATS}.mds:Mds", _BOTH, extensions=("mds",)),
    # Recognized by the name of a chunk; its columns are in another file.
    "litdata": FileFormat(f"{_FORMATS}.litdata:LitData", _BOTH),
    # These two are recognized by the checksum of a length, and by a header.
    "tfrecord": FileFormat(f"{_FORMATS}.tfrecord:TfRecord", _BOTH),
    "idx": FileFormat(f"{_FORMATS}.idx:Idx", ("image",)),
}

CONTAINERS = {
    "tar": FileFormat(
        "beam_jobs.corpus.containers.tar:Tar",
        extensions=("tar", "tgz", "tzst", "txz", "tbz2"),  # recognized by a header's checksum
    ),
    "zip": FileFormat("beam_jobs.corpus.containers.zip:Zip", (), (b"PK\3\4", b"PK\5\6"), ("zip",)),
}


def formats_of(kind: str) -> tuple[str, ...]:
    """The formats that can hold records of a type."""
    return tuple(name for name, form in FORMATS.items() if kind in form.kinds)
