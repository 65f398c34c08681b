"""A source whose files are archives: what reading tar and zip has in common."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from beam_jobs.corpus.record import Rejection
from beam_jobs.options.values import SPLIT_BY_FOLDER
from beam_jobs.sources.archives import (
    folder_items,
    place_of,
    said_by_companions,
    webdataset_items,
)
from beam_jobs.sources.base import Item, Raw, ReadRecord, Source, read_whole_file
from beam_jobs.sources.cells import wanted_columns
from beam_jobs.sources.containers import find_files
from beam_jobs.sources.contents import Contents, Entry
from beam_jobs.sources.naming import is_left_out, split_of_file
from shard_format import InputError

# The bytes at a place of a file; raises Rejection or OSError.
Fetch = Callable[[bytes, str], bytes]


class Listed:
    """An archive while it is listed.

    Attributes:
        compressed: Whether its members can be read in order only.
        damage: Why a part of it could not be read, and the places of that part; set at the end.
    """

    compressed = False
    damage: tuple[str, str] | None = None

    def __init__(self, file: Item) -> None:
        self.file = file


class PackedFiles(Source):
    """Archives with pictures in them; each archive decides by its own contents what it is."""

    @abc.abstractmethod
    def entries(self, archive: Listed) -> Iterator[Entry]:
        """The files of an archive in order; says in `archive` what it learns of it.

        Raises:
            Rejection: It cannot be read at all.
            OSError: Likewise.
        """

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        for number, file in enumerate(find_files(roots, on_ignored), start=1):
            if file.refused:
                yield file
                continue
            listed = Listed(file)
            try:
                contents = Contents(self._visible(listed, on_ignored), self.options)
            except Rejection as refusal:
                yield file._replace(refused=str(refusal))
                continue
            except OSError as error:
                yield file._replace(refused=f"unreadable: {error.strerror}")
                continue
            archive = file._replace(block=number if listed.compressed else 0)
            yield from self._records(archive, contents, on_ignored)
            if listed.damage is not None:
                why, place = listed.damage
                yield archive._replace(size=0, refused=f"damaged-archive: {why}", locator=place)

    def _visible(self, listed: Listed, on_ignored: Callable[[str], None]) -> Iterator[Entry]:
        for one in self.entries(listed):
            if any(is_left_out(part.encode()) for part in one.name.split("/")):
                on_ignored(f"{listed.file.record_id}/{one.name}")
            else:
                yield one

    def _records(
        self, archive: Item, contents: Contents, on_ignored: Callable[[str], None]
    ) -> Iterator[Item]:
        if self.options.split == SPLIT_BY_FOLDER:
            archive = archive._replace(split=split_of_file(archive.record_id))
        if contents.is_webdataset:
            return webdataset_items(contents, archive, self.options, on_ignored)
        columns = wanted_columns(self.options)
        columns.pop("label", None)
        if columns and not contents.is_empty:
            raise InputError(
                f"a column must stand in .json files beside the pictures, got "
                f"{', '.join(map(repr, columns.values()))} and none of them in "
                f"{archive.record_id}. Leave --group-by and --split column: out, or add them."
            )
        return folder_items(contents, archive, self.options)

    def read_with(self, fetch: Fetch) -> ReadRecord:
        """Reads records of the unit that `fetch` was opened for."""

        def read(item: Item) -> Raw:
            if not item.locator:  # a whole file: one that is no archive, or damaged
                return read_whole_file(item)
            place, companions = place_of(item)
            data = fetch(item.path, place)
            if item.refused:
                return Raw(data)
            if not companions or (self.options.no_labels and not wanted_columns(self.options)):
                return Raw(data, item.label, item.group, item.split)
            try:
                said = said_by_companions(
                    {name: fetch(item.path, place) for name, place in companions.items()},
                    self.options,
                )
            except Rejection as refusal:
                raise Rejection(refusal.reason, refusal.detail, data=data) from None
            return Raw(data, said.label, said.group, said.split or item.split)

        return read
