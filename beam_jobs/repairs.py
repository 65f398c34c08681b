"""Mended originals in place of those that were refused, of records that are read one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from beam_jobs.corpus.record import Rejection
from beam_jobs.mended import MendedFiles
from beam_jobs.sources import Item, Raw, ReadRecord
from beam_jobs.sources.base import read_file


def with_repaired(items: Iterator[Item], folders: Sequence[Path]) -> Iterator[Item]:
    """The items, each with the file that replaces its bytes if a folder has one.

    Args:
        items: As listed.
        folders: Hold files by `original_path`; the first that has one is taken.

    Raises:
        InputError: A folder is missing, or there is no file for any record.
    """
    mended = MendedFiles(folders)
    for item in items:
        yield mended.in_place_of(item)
    mended.check_matched()


def read_repaired(item: Item, read: ReadRecord) -> tuple[Raw, bytes]:
    """What the source says of a record, and the bytes of the file that replaces its own.

    Args:
        item: With a file that replaces its bytes.
        read: Reads the record where it was.

    Raises:
        Rejection: That file is what was refused: it was exported and left as it was.
        OSError: It cannot be read.
    """
    data = read_file(item.repaired, item.size)
    raw = Raw(b"", item.label, item.group, item.split)
    if item.locator:  # inside an archive or a table, which may tell its label
        try:
            raw = read(item)
        except OSError:
            pass  # what is damaged is not needed
        except Rejection as refusal:
            # Bytes that fail their checksum may well decode, and are no better for that.
            if refusal.data == data:
                raise
    return raw, data
