"""Mended originals in place of those that were refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from beam_jobs.sources import Item


def with_repaired(items: Iterator[Item], folder: Path) -> Iterator[Item]:
    """The items, each with the file that replaces its bytes if the folder has one.

    Args:
        items: As listed.
        folder: Holds files whose path in it is a record id.
    """
    for item in items:
        path = os.fsencode(folder / item.record_id)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            yield item
            continue
        if not stat.S_ISREG(status.st_mode):
            # The folder with the members of an archive that is itself a refused record.
            yield item
            continue
        size, changed = status.st_size, status.st_mtime_ns
        yield item._replace(size=size, mtime_ns=changed, refused="", repaired=path)
