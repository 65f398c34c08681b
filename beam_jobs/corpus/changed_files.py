"""Files that change between listing and reading.

Records are stored under the size and the time of change that the listing has: they decide the key
of a unit, and what an append takes for known. So bytes of another version are not used, also whole
ones, and a set has no file of which one part is older than another.

A file that still has its listed size and time once it was read is the one that was listed. One look
behind the last record of a file is enough.
"""

from __future__ import annotations

import os

from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.source_io import place_of
from foundation import storage

CHANGED = "changed-while-reading"  # a reason
# An object of at most so many bytes is read in one request, which gives one version of it; a look
# at it would be a request more for each.
_ONE_REQUEST_BYTES = 8 << 20


class SourceChangedError(Exception):
    """A file has changed after some of its records were taken."""


def read_path(item: SourceItem) -> bytes:
    """The path of the file that has the bytes of an item."""
    return item.replacement or item.path


def change_of(item: SourceItem) -> str:
    """What differs between the file of an item and the listing; "" if nothing is known to.

    A file that is gone has not changed: what was read of it is what was listed.
    """
    path = read_path(item)
    try:
        if b"://" not in path:
            status = os.stat(path)  # without a Path, which takes longer than this
            size, mtime_ns = status.st_size, status.st_mtime_ns
        else:
            if _is_whole(item) and item.size <= _ONE_REQUEST_BYTES:
                return ""
            stat = storage.stat(place_of(path))
            if stat is None:
                return ""
            size, mtime_ns = stat  # the time of an object has its ETag in it
    except OSError:
        return ""
    if size != item.size and _is_whole(item):
        return f"it has {size:,} bytes, {item.size:,} when it was listed"
    if (mtime_ns - item.mtime_ns) % (1 << 64):  # a listing has an int64
        return "its time of change is another than when it was listed"
    return ""


def _is_whole(item: SourceItem) -> bool:
    return not (item.locator.container or item.locator.is_split)
