"""Files that are ready to replace damaged ones, named by their SHA-256.

A file is compared with the manifest before it is put here. All files that exchange their contents
are here before the first of them is replaced, so a kill loses nothing, and the next repair goes on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from foundation import storage
from foundation.storage import Place
from shard_format import file_sha256
from shard_format.expected_files import Expected

_COPY_BYTES = 4 << 20  # 4 MiB


def make_room(final: Place) -> None:
    """Creates the parent folder of a file; deletes an empty folder with the name of the file.

    Raises:
        OSError: There is a folder with files, which are not ours to delete.
    """
    path = storage.local_path(final)
    if path is not None and path.is_dir():
        path.rmdir()
    storage.make_folder(final.parent)


class FinishedFiles:
    """The files of a repair that are ready.

    Args:
        folder: Folder of the files, on the file system of the set.

    Attributes:
        is_replacing: Whether files are being replaced, some of which are whole in the folder alone.
    """

    is_replacing = False

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        storage.make_folder(folder)

    def has(self, one: Expected) -> bool:
        """Returns whether a file is ready."""
        place = self._folder / one.sha256
        return _matches(place, one)

    def write(self, one: Expected, blocks: Iterable[bytes]) -> bool:
        """Writes a file and returns True; False, without a file, if its content is another one."""
        place, digest, size = self._folder / one.sha256, hashlib.sha256(), 0
        with storage.create(place, durable=True, scratch=self._scratch()) as file:
            for block in blocks:
                digest.update(block)
                size += len(block)
                file.write(block)
        if size == one.bytes and digest.hexdigest() == one.sha256:
            return True
        storage.delete(place)
        return False

    def copy(self, one: Expected, place: Place) -> bool:
        """Writes a copy of a file, as `write` does."""
        with storage.open_input(place) as file:
            return self.write(one, iter(lambda: file.read(_COPY_BYTES), b""))

    def move(self, one: Expected, place: Place) -> bool:
        """Moves a file that is not needed any more; copies it where it is remote."""
        path, own = storage.local_path(place), storage.local_path(self._folder)
        if path is None or own is None:
            return self.copy(one, place)
        if not _matches(path, one):
            return False
        os.replace(path, own / one.sha256)
        return True

    def replace(self, ready: Iterable[Expected], directory: Place) -> None:
        """Writes files that are ready to their final names below a directory."""
        ready = list(ready)
        self.is_replacing = bool(ready)
        for one in ready:
            self._install(one, directory)
        self.is_replacing = False

    def _install(self, one: Expected, directory: Place) -> None:
        ready, final = self._folder / one.sha256, directory / one.file
        make_room(final)
        with storage.create(final, durable=True, scratch=self._scratch()) as file:
            with storage.open_input(ready) as content:
                shutil.copyfileobj(content, file, _COPY_BYTES)

    def _scratch(self) -> Path | None:
        return storage.local_path(self._folder)


def _matches(place: Place, one: Expected) -> bool:
    info = storage.stat(place)
    return info is not None and info.size == one.bytes and file_sha256(place) == one.sha256
