"""The files of one archive, and what their names tell of its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.options import PreprocessOptions
from beam_jobs.sources.naming import member_name

PICTURES = frozenset(
    ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm", "avif")
)
_BATCH_ROWS = 8192
_TABLE = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("place", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("refused", pa.string()),
    ]
)


class Entry(NamedTuple):
    """One file of an archive.

    Attributes:
        name: Its safe name (`member_name`).
        place: Where its bytes lie, in words of its source; "" if it has none.
        size: How many bytes.
        refused: Why it is no record, or "".
        copy: 2 of the second entry of that name, and so on.
    """

    name: str
    place: str
    size: int
    refused: str
    copy: int = 1


def entry(raw_name: bytes, place: str, size: int, kind: str) -> Entry:
    """An entry, refused if unpacking it would leave the archive."""
    name = member_name(raw_name) or "//unnamed"
    if kind:
        return Entry(name, place, size, f"unsafe-member: it is {kind}")
    if raw_name.startswith(b"/") or b".." in raw_name.split(b"/"):
        shown = raw_name.decode("utf-8", "backslashreplace")[:200]
        return Entry(name, place, size, f"unsafe-member: the name {shown!r} leads out of it")
    return Entry(name, place, size, "")


class Contents:
    """The entries of one archive, in columns: a million of them take about 100 MB.

    Attributes:
        is_webdataset: Whether pictures have companions.
        outer_folder: The folder around all others, if there is one.
    """

    def __init__(self, entries: Iterable[Entry], options: PreprocessOptions) -> None:
        self._batches: list[pa.RecordBatch] = []
        rows: list[Entry] = []
        shape = _Shape(options.no_labels)
        for one in entries:
            rows.append(one)
            if not one.refused:
                shape.see(one.name)
            if len(rows) == _BATCH_ROWS:
                self._keep(rows)
        self._keep(rows)
        self.is_webdataset = shape.is_webdataset
        self.outer_folder = shape.outer_folder()
        self._repeated = self._find_repeated()

    @property
    def is_empty(self) -> bool:
        """Whether there is no file in the archive."""
        return not self._batches

    def __iter__(self) -> Iterator[Entry]:
        """Every entry in order."""
        seen: dict[str, int] = dict.fromkeys(self._repeated, 0)
        for batch in self._batches:
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                one = Entry(*values)
                if one.name in seen:
                    seen[one.name] += 1
                    one = one._replace(copy=seen[one.name])
                yield one

    def _keep(self, rows: list[Entry]) -> None:
        if rows:
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*rows, strict=True), _TABLE, strict=False)
            ]
            self._batches.append(pa.record_batch(columns, schema=_TABLE))
            rows.clear()

    def _find_repeated(self) -> list[str]:
        if not self._batches:
            return []
        names = pa.Table.from_batches(self._batches)["name"]
        if pc.count_distinct(names).as_py() == len(names):
            return []
        counts = pc.value_counts(names)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        return list(repeated.to_pylist())


class _Around:
    """The folder around all class folders of some files.

    Attributes:
        is_empty: Whether there was no file.
        folder: Its name; None if there is none.
    """

    def __init__(self) -> None:
        self.is_empty = True
        self.folder: str | None = None

    def see(self, name: str) -> None:
        """Takes the name of the next file into account."""
        if self.is_empty or self.folder is not None:
            top, *below = name.split("/", 2)
            same = len(below) == 2 and (self.is_empty or self.folder == top)
            self.folder = top if same else None
            self.is_empty = False


class _Shape:
    """What the names of an archive tell about its form."""

    def __init__(self, no_labels: bool) -> None:
        self.is_webdataset = False
        self._no_labels = no_labels
        self._key, self._extensions = "", set[str]()
        self._pictures, self._files = _Around(), _Around()

    def see(self, name: str) -> None:
        """Takes the name of the next file into account."""
        key, extension = split_key(name)
        self._files.see(name)
        if is_picture(extension):
            self._pictures.see(name)
        if self.is_webdataset:
            return
        if key != self._key:
            self._key = key
            self._extensions.clear()
        if extension in ("cls", "json") or (
            extension == "txt" and (self._no_labels or "/" not in name)
        ):
            self._extensions.add("companion")
        elif is_picture(extension):
            self._extensions.add("picture")
        self.is_webdataset = len(self._extensions) == 2

    def outer_folder(self) -> str | None:
        """The folder around all others, if there is one.

        Pictures decide: a LICENSE.txt beside the class folders must not make one class of all.
        """
        return (self._files if self._pictures.is_empty else self._pictures).folder


def split_key(name: str) -> tuple[str, str]:
    """(key, extension) of a member: they meet at the first dot of the last part of the name."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


def is_picture(extension: str) -> bool:
    """Whether a member is a picture by its extension, "jpg" or "seg.png"."""
    return extension.rpartition(".")[2] in PICTURES
