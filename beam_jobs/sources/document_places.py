"""Where documents lie: in a file, in a stretch of one, in a member of an archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.base import Item
from beam_jobs.sources.compression import Stream, open_stream, skip
from beam_jobs.sources.ranges import Place
from beam_jobs.sources.streams import Range, Raw
from beam_jobs.sources.zip import ZipPlace
from beam_jobs.sources.zip_member import ZipMember

_BLOCK_BYTES = 1 << 16  # 64 KiB: what is lost of a stream before damage
_BETWEEN_GAPS = ","  # as sources/tar.py joins the places of one damaged archive


class Where(NamedTuple):
    """The locator of an item.

    Attributes:
        container: "tar" or "zip"; "" of a file that is none.
        place: Where in it, in that source's words; "-" has no bytes.
        form: The format of a file that was cut.
        start: First byte of the stretch, or first row.
        end: One behind the last; -1 is the end.
        beside: A hash of what else decides what is read: class names that lie beside the file, and
            mended files in place of documents of this stretch; "" if there is none.
    """

    container: str = ""
    place: str = ""
    form: str = ""
    start: int = 0
    end: int = -1
    beside: str = ""

    def __str__(self) -> str:
        return "" if self == Where() else "|".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Where:
        """The inverse of str()."""
        if not text:
            return cls()
        container, place, form, start, end, beside = text.split("|")
        return cls(container, place, form, int(start), int(end), beside)

    @property
    def is_stretch(self) -> bool:
        """Whether the file was cut."""
        return self.start > 0 or self.end >= 0


class Archives:
    """The compressed archives of one unit, each gone through once if read in order.

    Args:
        scratch: A path for a file, which holds one member at a time.
        most: Bytes of a compressed member to read, for a look.
    """

    def __init__(self, scratch: Path, most: int = sys.maxsize) -> None:
        self._scratch = scratch
        self._most = most
        self._path = b""
        self._position = 0
        self._damage: Rejection | None = None
        self._opened = ExitStack()
        self._stream: Stream | None = None
        self._held: Place | None = None
        self._held_damage: Rejection | None = None

    def close(self) -> None:
        """Closes what is open."""
        self._leave()
        self._scratch.unlink(missing_ok=True)

    def raw(self, item: Item, where: Where) -> Raw:
        """The bytes of an item, as they lie there.

        Raises:
            Rejection: It has none.
            OSError: They cannot be opened.
        """
        if where.place == "-":
            raise Rejection("no-bytes", "the entry has no bytes of its own")
        if where.container == "zip":
            return ZipMember(item.path, ZipPlace.parse(where.place))
        if where.container == "tar":
            return self.range(item.path, Place.parse(where.place))
        return Range(item.path)

    def range(self, path: bytes, place: Place) -> Raw:
        """A stretch of a file, or of what is compressed in it."""
        if not place.codec:
            return Range(path, place.offset, place.size)
        if (path, place) != (self._path, self._held):
            self._hold(path, place)
        return Range(bytes(self._scratch), 0, -1, self._held_damage)

    def gaps(self, path: bytes, place: str) -> bytes:
        """The bytes of a damaged archive that belong to no member, as far as they can be read."""
        parts = []
        for text in place.split(_BETWEEN_GAPS):
            if text:
                raw = self.range(path, Place.parse(text))
                with raw:
                    parts.append(raw.read() or b"")
        return b"".join(parts)

    def _hold(self, path: bytes, place: Place) -> None:
        """Copies a member of a compressed archive to the scratch file."""
        if self._stream is None or path != self._path or place.offset < self._position:
            self._leave()
            self._path, self._position, self._damage = path, 0, None
            self._stream = self._opened.enter_context(open_stream(path, place.codec))
        self._held = place
        left = min(place.size, self._most)
        with self._scratch.open("wb") as sink:
            try:
                if self._damage is None:
                    self._position += skip(self._stream, place.offset - self._position)
                while self._damage is None and left:
                    data = self._stream.read(min(left, _BLOCK_BYTES))
                    if not data:
                        self._damage = Rejection("damaged-stream", "the archive ends too early")
                        break
                    sink.write(data)
                    left -= len(data)
                    self._position += len(data)
            except Rejection as damage:
                self._damage = damage
        self._held_damage = self._damage if left else None

    def _leave(self) -> None:
        self._opened.close()
        self._stream, self._path, self._held = None, b"", None


@contextmanager
def archives(scratch: Path, most: int = sys.maxsize) -> Iterator[Archives]:
    """Opens the archives of one unit, see Archives."""
    opened = Archives(scratch, most)
    try:
        yield opened
    finally:
        opened.close()
