"""A source whose files have rows and columns: what reading Parquet and Arrow has in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import ImageOptions
from beam_jobs.sources.base import Item, ReadRecord, Source
from beam_jobs.sources.containers import find_files, split_by_folder
from beam_jobs.sources.rows import ColumnFile, RowSpool, file_items

# Files such as these lie beside the data sets of Hugging Face, and hold no record.
_BESIDE = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
_MAX_GROUPS = 1 << 32  # of one file, so that no two groups have one number
_MAX_FILES = 1 << 30  # then numbers begin again: what counts is that neighbours differ


class ColumnFiles(Source):
    """Every row of every file is a record."""

    options: ImageOptions

    @abc.abstractmethod
    def open_file(self, path: bytes) -> AbstractContextManager[ColumnFile]:
        """Opens a file.

        Raises:
            Rejection: It is of another kind, or damaged.
        """

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        for number, file in enumerate(find_files(roots, on_ignored)):
            if file.record_id.rpartition("/")[2] in _BESIDE:
                on_ignored(file.record_id)
            elif file.refused:
                yield file
            else:
                yield from self._file_items(file, 1 + number % _MAX_FILES * _MAX_GROUPS)

    def _file_items(self, file: Item, first_block: int) -> Iterator[Item]:
        split, refused = split_by_folder(self.options, file.record_id)
        if refused:
            yield file._replace(refused=refused)
            return
        try:
            with self.open_file(file.path) as opened:
                named = file._replace(split=split)
                yield from file_items(named, opened, self.options, first_block)
        except Rejection as refusal:
            yield file._replace(refused=str(refusal))

    @contextmanager
    def open(self, items: Sequence[Item], scratch: Path) -> Iterator[ReadRecord]:
        """See Source."""
        by_file: dict[bytes, set[str]] = {}
        for item in items:
            if item.locator:
                by_file.setdefault(item.path, set()).add(item.locator)
        try:
            with scratch.open("wb", buffering=1 << 20) as sink:  # 1 MiB a system call
                spool = RowSpool(scratch, sink)
                for path, locators in by_file.items():
                    try:
                        with self.open_file(path) as opened:
                            spool.keep_file(path, opened, self.options.image_column, locators)
                    except Rejection as refusal:
                        spool.fail(path, refusal.detail)
            pa.default_memory_pool().release_unused()  # a dictionary of pictures may be large
            yield spool.read
        finally:
            scratch.unlink(missing_ok=True)
