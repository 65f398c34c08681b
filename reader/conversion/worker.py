"""The work of one process of a conversion: the records of a piece become files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foundation import storage
from foundation.storage import Place
from foundation.storage.local import flush_names
from reader.access.random_access import SplitReference
from reader.conversion.base import ConversionFormat, ConversionPiece, Written
from reader.conversion.formats import CONVERSION_FORMATS
from reader.conversion.records import SplitReader
from reader.order.numpy_order import Int64Array
from shard_format import file_sha256


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
        self._splits: dict[str, SplitReader] = {}
        self._manifest = SplitReference(task.directory, "", False, 1, task.root_hash).manifest()

    def convert(self, piece: ConversionPiece, rows: Sequence[int] | Int64Array) -> Written:
        """Writes the files of a piece to the output.

        Args:
            piece: The piece.
            rows: Numbers of its records in the split.
        """
        folder = self._task.scratch / piece.name
        folder.mkdir(parents=True)
        manifest = self._manifest
        records = self._reader(piece.split).read(
            np.asarray(rows), piece.first, decode=self._format.decodes
        )
        details = self._format.write(manifest.name, manifest.schema, piece, records, folder)
        listed = not self._format.has_file_per_record(manifest.schema)
        files = place_files(folder, self._task.out, listed=listed)
        return Written(piece, *files, details)

    def _reader(self, split: str) -> SplitReader:
        if split not in self._splits:
            self._splits[split] = SplitReader(self._task.directory, self._manifest, split)
        return self._splits[split]


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
    # Strings: a Path for each of many small files takes as long as its rename.
    paths = sorted(os.path.join(one, file) for one, _, files in os.walk(folder) for file in files)
    names = [path[len(str(folder)) + 1 :] for path in paths]
    sizes, digests = [], []
    if not listed and isinstance(out, Path):
        os.sync()  # for each of so many files it would take a while
    folders = {os.path.dirname(name) for name in names}
    parents = [out / one if one else out for one in folders]
    for parent in parents:
        storage.make_folder(parent)
    for name, path in zip(names, paths, strict=True):
        if listed:
            sizes.append(os.path.getsize(path))
            digests.append(file_sha256(Path(path)))
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        if isinstance(out, Path):
            os.replace(path, os.path.join(out, name))
            continue
        with open(path, "rb") as source, storage.create(out / name) as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    for parent in parents:
        if isinstance(parent, Path):
            flush_names(parent)
    shutil.rmtree(folder)
    return (tuple(names) if listed else (), tuple(sizes), tuple(digests))
