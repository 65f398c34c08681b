"""The work of one process of a conversion: the records of a piece become files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from foundation import storage
from foundation.storage import Place
from foundation.storage.local import flush_names
from reader.access.indexed_split import IndexedSplit
from reader.access.random_access import SplitReference
from reader.conversion.base import ConversionFormat, ConversionPiece, Record, Written
from reader.conversion.formats import CONVERSION_FORMATS
from reader.order.numpy_order import Int64Array
from shard_format import file_sha256

_OPEN_FILES = 64


class ConversionTask(NamedTuple):
    """What a worker does.

    Attributes:
        directory: The shard set.
        root_hash: Its root hash.
        to: Name of the format.
        out: The output.
        scratch: Empty local folder of this worker; on the file system of `out` if that is local.
    """

    directory: Place
    root_hash: str
    to: str
    out: Place
    scratch: Path


class ConversionFailure(NamedTuple):
    """What a worker sends in place of a result.

    Attributes:
        message: Message of the error.
        kind: Name of the class of an error that a user can fix; "" for any other.
    """

    message: str
    kind: str = ""


class Worker:
    """Converts pieces of one set.

    Args:
        task: What to do.
    """

    def __init__(self, task: ConversionTask) -> None:
        self._task = task
        self._format: ConversionFormat = CONVERSION_FORMATS[task.to]()
        self._splits: dict[str, IndexedSplit] = {}
        self._manifest = self._reference("").manifest()

    def convert(self, piece: ConversionPiece, rows: Sequence[int] | Int64Array) -> Written:
        """Writes the files of a piece to the output.

        Args:
            piece: The piece.
            rows: Numbers of its records in the split.
        """
        folder = self._task.scratch / piece.name
        folder.mkdir(parents=True)
        manifest = self._manifest
        records = self._records(piece, rows)
        details = self._format.write(manifest.name, manifest.schema, piece, records, folder)
        listed = not self._format.has_file_per_record(manifest.schema)
        files = place_files(folder, self._task.out, listed=listed)
        return Written(piece, *files, details)

    def _records(
        self, piece: ConversionPiece, rows: Sequence[int] | Int64Array
    ) -> Iterator[Record]:
        split = self._split(piece.split)
        numbers: Iterator[int] = map(int, rows)
        if storage.local_path(self._task.directory) is None:
            numbers = storage.ahead(numbers, split.range_of)
        for number, row in enumerate(numbers, piece.first):
            if self._format.decodes:
                example, values = split.read_with_example(row)
            else:
                example, values = split.read_example(row), {}
            yield Record(number, example, google_crc32c.value(example), values)

    def _split(self, name: str) -> IndexedSplit:
        if name not in self._splits:
            self._splits[name] = self._reference(name).open(self._manifest)
        return self._splits[name]

    def _reference(self, split: str) -> SplitReference:
        return SplitReference(self._task.directory, split, False, _OPEN_FILES, self._task.root_hash)


def place_files(
    folder: Path, out: Place, *, listed: bool
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Moves all files of a local folder to the output, where they appear whole, and deletes it.

    They survive a power cut as soon as this has returned.

    Args:
        folder: The folder.
        out: The output; if it is local, on the same file system.
        listed: Whether they are returned; not if they are too many.

    Returns:
        Names, sizes and SHA-256 of the files.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in paths]
    sizes, digests = [], []
    if not listed and isinstance(out, Path):
        os.sync()  # for each of so many files it would take a while
    for name, path in zip(names, paths, strict=True):
        if listed:
            sizes.append(path.stat().st_size)
            digests.append(file_sha256(path))
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        target = out / name
        storage.make_folder(target.parent)
        if isinstance(target, Path):
            os.replace(path, target)
            continue
        with open(path, "rb") as source, storage.create(target) as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    if isinstance(out, Path):
        for parent in {(out / name).parent for name in names}:
            flush_names(parent)
    shutil.rmtree(folder)
    return (tuple(names) if listed else (), tuple(sizes), tuple(digests))
