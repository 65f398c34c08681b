"""Members of an archive that is compressed as a whole, such as a .tar.gz."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from beam_jobs.corpus.record import Locator, Rejection
from beam_jobs.corpus.streams import FileRange, RawStream, SequentialReader, opened

_COPY_BYTES = 1 << 16  # 64 KiB: the bytes lost of a stream before damage


class CompressedArchive:
    """The members of compressed archives, each decompressed once if they are read in order.

    Args:
        scratch: A path for a file, which holds one member at a time.
        limit: Most bytes of a member to read.
    """

    def __init__(self, scratch: Path, limit: int | None) -> None:
        self._scratch = scratch
        self._limit = limit
        self._path = b""
        self._opened = ExitStack()
        self._reader: SequentialReader | None = None
        self._damage: Rejection | None = None
        self._held: Locator | None = None
        self._held_damage: Rejection | None = None

    def close(self) -> None:
        """Closes the archive that is open."""
        self._leave()
        self._scratch.unlink(missing_ok=True)

    def open(self, path: bytes, locator: Locator) -> RawStream:
        """The bytes of a member, as far as they can be decompressed."""
        locator = locator._replace(companions=(), context="")
        if (path, locator) != (self._path, self._held):
            self._hold(path, locator)
        return FileRange(bytes(self._scratch), 0, -1, self._held_damage)

    def _hold(self, path: bytes, locator: Locator) -> None:
        """Copies a member to the scratch file."""
        if self._reader is None or path != self._path or locator.offset < self._reader.position:
            self._leave()
            self._path, self._damage = path, None
            stream = self._opened.enter_context(opened(FileRange(path), locator.codec))
            self._reader = SequentialReader(stream)
        self._held, self._held_damage = locator, None
        left = locator.size if self._limit is None else min(locator.size, self._limit)
        with self._scratch.open("wb") as sink:
            try:
                if self._damage is None:
                    self._reader.skip(locator.offset - self._reader.position)
                while self._damage is None and left:
                    data = self._reader.take(min(left, _COPY_BYTES))
                    if not data:
                        self._damage = Rejection("damaged-stream", "the archive ends too early")
                        break
                    sink.write(data)
                    left -= len(data)
            except Rejection as damage:
                self._damage = damage
        self._held_damage = self._damage if left else None

    def _leave(self) -> None:
        self._opened.close()
        self._reader, self._path, self._held = None, b"", None
