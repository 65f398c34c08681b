"""From an item to the documents in it: what it lies in is opened, and its format found out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents import Format, Part
from beam_jobs.documents.content import HEAD_BYTES, UNKNOWN, container_of, format_of
from beam_jobs.documents.reading import Mended, ReadDocument, read_part
from beam_jobs.mended import MendedFiles
from beam_jobs.options import TextOptions
from beam_jobs.sources.base import Item
from beam_jobs.sources.beside import Names
from beam_jobs.sources.compression import codec_of_head
from beam_jobs.sources.document_places import Archives, Where
from beam_jobs.sources.frames import is_frame
from beam_jobs.sources.streams import Bytes, Held, Range, Raw, opened

_UNKNOWN_BYTES = 16 << 20  # 16 MiB: larger files of no known format are not copied to quarantine
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")  # how TFRecord's other codec begins


class _Content(NamedTuple):
    """What was found out about a file.

    Attributes:
        codec: How it is compressed.
        form: The name of its format; UNKNOWN if it has none.
        source: Opens it.
        why: If it has no format, why.
    """

    codec: str
    form: str
    source: Callable[[], Raw]
    why: str = ""


class PartReader:
    """Reads the items of one unit.

    Args:
        options: The job.
        formats: By name.
        archives: Of the unit.
        mended: Files in place of documents.
        scratch: A path for a file.
        names: The class names beside a file, by its path.
    """

    def __init__(
        self,
        options: TextOptions,
        formats: Mapping[str, Format],
        archives: Archives,
        mended: MendedFiles,
        scratch: Path,
        names: Callable[[bytes], Names] = lambda _: Names((), ""),
    ) -> None:
        self._names = names
        self._options = options
        self._formats = formats
        self._archives = archives
        self._mended = mended
        self._scratch = scratch.with_name(f"{scratch.name}.part")

    def read(self, item: Item) -> Iterator[ReadDocument]:
        """Every document of an item, in order."""
        where = Where.parse(item.locator)
        if item.refused:
            yield self._refused(item, where)
            return
        source = partial(self._archives.raw, item, where)
        if not item.repaired:
            yield from self._read(item, where, source)
            return
        replaced = partial(Range, item.repaired)
        if where.is_stretch:
            yield from self._read(item, where, replaced)
            return
        # What was exported and left as it was is refused as it was.
        before = next(self._read(item, where, source), None)
        if before is not None and before.record_id == item.record_id:
            reject = before.outcome
            if isinstance(reject, Rejection) and reject.data == _bytes_of(replaced):
                yield before
                return
        yield from self._read(item, where, replaced)

    def part(self, item: Item, where: Where, source: Callable[[], Raw]) -> tuple[Part, Format]:
        """The part that an item is, and its format.

        Raises:
            Rejection: It is of no known format, or damaged.
            OSError: It cannot be read.
        """
        name = item.record_id.rpartition("/")[2]
        file_id = item.record_id
        if where.is_stretch:
            file_id, content = item.record_id.rpartition("/")[0], _Content("", where.form, source)
        else:
            content = self._content(name, source)
        if content.form == UNKNOWN:
            raise Rejection(
                "unknown-format", content.why, data=_bytes_of(content.source, _UNKNOWN_BYTES)
            )
        part = Part(
            file_id,
            partial(_open, content.source, content.codec),
            where.start,
            where.end,
            item.label,
            item.split,
            self._scratch,
            content.codec,
            partial(_open, content.source, ""),
            self._names(item.path).names,
        )
        return part, self._formats[content.form]

    def _read(self, item: Item, where: Where, source: Callable[[], Raw]) -> Iterator[ReadDocument]:
        try:
            part, form = self.part(item, where, source)
        except Rejection as refusal:
            reject = Rejection(refusal.reason, refusal.detail, stage="read", data=refusal.data)
            yield ReadDocument(item.record_id, b"", reject)
            return
        except OSError as error:
            detail = f"reading it failed: {error.strerror or type(error).__name__}"
            yield ReadDocument(item.record_id, b"", Rejection("unreadable", detail, stage="read"))
            return
        mended = {}
        if where.beside and self._options.repaired:
            below = self._mended.below(part.file_id)
            mended = {place: Mended(path, size) for place, (path, size, _) in below.items()}
        yield from read_part(part, form, mended)

    def _content(self, name: str, source: Callable[[], Raw]) -> _Content:
        with source() as raw:
            packed = head = raw.look(HEAD_BYTES)
            if len(head) < HEAD_BYTES and raw.damage is None:
                source = partial(Held, head)  # which is all of it
        form = self._options.format
        may_be_frames = form in ("auto", "tfrecord")
        codec = "" if may_be_frames and is_frame(head[:12]) else codec_of_head(head)
        if (
            not codec
            and head.startswith(_ZLIB)
            and (form == "tfrecord" or (form == "auto" and "tfrecord" in name.lower()))
        ):
            codec = "zlib"
        if codec:
            with opened(source(), codec) as file:
                head = file.head(HEAD_BYTES)
        if container_of(head) or container_of(packed):
            return _Content(codec, UNKNOWN, source, "it is an archive inside of another")
        if form == "auto":
            form = format_of(head, name)
        begins = f"it begins with {head[:16]!r}, as no format of documents does"
        return _Content(codec, form, source, "" if form else begins)

    def _refused(self, item: Item, where: Where) -> ReadDocument:
        """What listing refused, with its bytes if it has some."""
        reason, _, detail = item.refused.partition(": ")
        data = None
        if os.path.isfile(item.path):  # a pipe might be waited for without end
            try:
                if where.container == "tar" and "," in where.place:
                    data = self._archives.gaps(item.path, where.place)
                else:
                    data = _bytes_of(partial(self._archives.raw, item, where))
            except (Rejection, OSError):
                data = None
        return ReadDocument(item.record_id, b"", Rejection(reason, detail, stage="list", data=data))


def _open(source: Callable[[], Raw], codec: str) -> AbstractContextManager[Bytes]:
    return opened(source(), codec)


def _bytes_of(source: Callable[[], Raw], limit: int = 512 << 20) -> bytes | None:
    """All bytes of something; None if they are more than a limit."""
    with opened(source()) as file:
        data = file.read(limit + 1)
    return data if len(data) <= limit else None
