"""From an item of the listing to its records: open it, find its format, find and parse records."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_jobs.corpus.codecs import ZLIB_MAGIC, codec_of
from beam_jobs.corpus.compressed_archive import CompressedArchive
from beam_jobs.corpus.containers.base import NO_BYTES, container
from beam_jobs.corpus.dataset_metadata import feature_names
from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord, FoundRejection
from beam_jobs.corpus.formats.tfrecord import is_frame
from beam_jobs.corpus.frames import Frame, FramedContent
from beam_jobs.corpus.labels import DEFAULT_LABEL, AnnotationReader
from beam_jobs.corpus.record import (
    NO_ROW,
    Annotations,
    IgnoredPart,
    Locator,
    RawRecord,
    ReadResult,
    Rejection,
    SourceItem,
    UnusableRecord,
)
from beam_jobs.corpus.record_extractor import FileExtractor, ItemExtractor, RecordExtractor
from beam_jobs.corpus.replacements import Replacement, Replacements
from beam_jobs.corpus.sniffing import HEAD_BYTES, UNKNOWN, container_in
from beam_jobs.corpus.source_io import (
    CHANGED,
    UnreadableError,
    change_of,
    check_size,
    file_of,
    is_file,
    read_file,
    read_path,
)
from beam_jobs.corpus.streams import (
    FileRange,
    InMemory,
    RawStream,
    bytes_within,
    opened,
)
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.formats import FORMATS
from beam_jobs.options.urls import UrlOptions
from foundation import storage

if TYPE_CHECKING:
    from beam_jobs.corpus.urls.fetched import FetchedRecords

_KEPT_BYTES = 16 << 20  # 16 MiB: larger files without a record are not copied to quarantine
_ZIP_HEADER_BYTES = 512  # of a member, with its name, in most archives
OpenRaw = Callable[[], RawStream]


class CorpusReader:
    """Reads the items of one unit, in the order of the listing.

    Args:
        options: The job.
        extractor: What the record type takes out of a record.
        scratch: A path for files of its own, which are removed when it is closed.
        inspected_bytes: Most bytes of a compressed member to read, if it is only to be inspected.
        changed: Paths of files that are other ones than were listed; their items are rejected.
    """

    def __init__(
        self,
        options: PreprocessOptions,
        extractor: RecordExtractor,
        scratch: Path,
        inspected_bytes: int | None = None,
        changed: Collection[bytes] = (),
    ) -> None:
        self._options = options
        self._changed = changed
        self._extractor = extractor
        self._formats = formats_of_job(options, extractor)
        self._replacements = Replacements([storage.place_of(folder) for folder in options.repaired])
        self._inspected_bytes = inspected_bytes
        self._opened = contextlib.ExitStack()
        self._scratch = scratch
        self._feature_names = functools.cache(feature_names)  # read once per folder
        self._companion_fields = AnnotationReader(options)

    def __enter__(self) -> CorpusReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @functools.cached_property
    def _archive(self) -> CompressedArchive:
        scratch = self._scratch.with_name(f"{self._scratch.name}.m")
        archive = CompressedArchive(scratch, self._inspected_bytes)
        return self._opened.enter_context(contextlib.closing(archive))

    @functools.cached_property
    def _fetching(self) -> FetchedRecords | None:
        """What fetches, if the items are lists of URLs."""
        extractor, options = self._extractor, self._options
        if not isinstance(options, UrlOptions) or options.url_column is None:
            return None
        if not isinstance(extractor, FileExtractor):
            return None
        from beam_jobs.corpus.urls.fetched import FetchedRecords  # loads the client

        fetching = FetchedRecords(options, extractor)
        return self._opened.enter_context(contextlib.closing(fetching))

    def read(self, item: SourceItem) -> Iterator[ReadResult]:
        """Every record of an item, in order.

        Raises:
            UnreadableError: An I/O error, unless --on-unreadable quarantines those.
        """
        if self._changed and not item.reason and read_path(item) in self._changed:
            yield self.changed(item)
            return
        try:
            yield from self._read(item)
        except UnreadableError as error:
            if self._options.on_unreadable == "stop":
                raise
            reason = error.error.strerror or type(error.error).__name__
            rejection = Rejection("unreadable", f"reading it failed: {reason}")
            yield self._rejected(item, rejection)

    def changed(self, item: SourceItem) -> UnusableRecord:
        """An item whose file has changed, with the bytes that it has now, if it is a file."""
        data = None
        if not (item.locator.container or item.locator.is_split):
            with contextlib.suppress(Rejection, UnreadableError):
                data = bytes_within(opened(FileRange(read_path(item))), _KEPT_BYTES)
        detail = change_of(item) or "it changed and changed back"
        return self._rejected(item, Rejection(CHANGED, detail, data=data))

    def _read(self, item: SourceItem) -> Iterator[ReadResult]:
        if isinstance(self._extractor, ItemExtractor):
            yield from self._extractor.read(item)
            return
        if item.reason:
            yield self._rejected_by_listing(item)
            return
        source: OpenRaw | None = None
        if item.locator.companions:
            item, data = self._with_companions(item)
            if isinstance(data, Rejection):
                yield self._rejected(item, data)
                return
            source = partial(InMemory, data)
        if not item.replacement:
            yield from self._records(item, source)
            return
        replaced = partial(FileRange, item.replacement)
        if not item.locator.is_split:
            # An original that was exported and not changed is rejected as before.
            limit = self._extractor.limit
            before = next(self._records(item._replace(replacement=b""), source), None)
            if isinstance(before, UnusableRecord) and before.record_id == item.record_id:
                if before.rejection.data == bytes_within(opened(replaced()), limit):
                    yield before
                    return
        yield from self._records(item, replaced)

    def _records(self, item: SourceItem, source: OpenRaw | None) -> Iterator[ReadResult]:
        try:
            part, form = self.part(item, source)
        except Rejection as rejection:
            yield self._rejected(item, rejection)
            return
        replacements: Mapping[str, Replacement] = {}
        if item.locator.context and self._replacements:
            replacements = self._replacements.below(part.file_id)
        if self._fetching is None:
            yield from read_part(part, form, replacements, self._known_label(item))
            return
        rows = read_part(part, form, {}, self._known_label(item))
        yield from self._fetching.read(rows, replacements)

    def _rejected(self, item: SourceItem, rejection: Rejection) -> UnusableRecord:
        return UnusableRecord(item.record_id, rejection.at("read"), self._known_label(item))

    def _known_label(self, item: SourceItem) -> str | None:
        """The label of a record that was not parsed; None if parsing would have decided."""
        by_listing = self._extractor.needs_class_folders or self._options.table is not None
        return item.label if by_listing else None

    def part(self, item: SourceItem, source: OpenRaw | None = None) -> tuple[FilePart, Format]:
        """The bytes of an item, and their format.

        Args:
            item: The item.
            source: Opens other bytes in place of its own.

        Raises:
            Rejection: It has no known format, or is damaged.
            UnreadableError: An I/O error.
        """
        source = source or partial(self._open, item.path, item.locator)
        locator = item.locator
        file_id = item.record_id
        label_columns = self._options.label_columns or (DEFAULT_LABEL,)
        known = locator.format or self._extractor.known_format(item)
        if locator.is_split:
            file_id = item.record_id.rpartition("/")[0]
        stored, codec, form = source, "", known
        if not known:
            stored, codec, form = self._inspected(item, source)
        elif not (FORMATS[known].is_record or locator.is_split):
            with source() as raw:
                codec = _codec_of_head(raw.look(16), "", known)
        # A small file that was read to inspect it is in memory; others are read in place.
        in_place = item if stored is source else None
        read_all = partial(_read_all, stored, in_place, self._extractor.limit)
        part = FilePart(
            file_id,
            stored,
            codec,
            read_all=None if codec else read_all,
            path=item.path,
            scratch=self._scratch,
            locator=locator,
            annotations=Annotations(item.label, item.group, item.split, item.kept),
            names=partial(self._feature_names, os.path.dirname(item.path), label_columns),
        )
        return part, self._formats(form)

    def _inspected(self, item: SourceItem, source: OpenRaw) -> tuple[OpenRaw, str, str]:
        """(source, codec, format) of a file, by its first bytes and its name.

        Raises:
            Rejection: It has no known format.
        """
        name = item.record_id.rpartition("/")[2]
        with source() as raw:
            stored = head = raw.look(HEAD_BYTES)
            if len(head) < HEAD_BYTES and raw.damage is None:
                source = partial(InMemory, head)  # which is all of it
        codec = _codec_of_head(head, name, getattr(self._options, "format", "auto"))
        if codec:
            with opened(source(), codec) as file:
                head = file.head(HEAD_BYTES)
        if container_in(head) or container_in(stored):
            form, why = UNKNOWN, "it is an archive inside of another"
        else:
            form = self._extractor.format_of(head, name)
            why = f"it begins with {head[:16]!r}, as no known format does"
        if form == UNKNOWN:
            data = bytes_within(opened(source()), _KEPT_BYTES)
            raise Rejection("unknown-format", why, data=data)
        return source, codec, form

    def _open(self, path: bytes, locator: Locator) -> RawStream:
        """The bytes of an item, as they are stored.

        Raises:
            Rejection: It has none.
        """
        if locator.size == NO_BYTES:
            raise Rejection("no-bytes", "the entry has no bytes of its own")
        if locator.is_split and locator.codec:
            frame, end = (
                Frame(locator.offset, locator.seek),
                Frame(locator.stored_size, locator.size),
            )
            return FramedContent(path, locator.codec, frame, end)
        if not locator.container:
            return FileRange(path)
        if locator.codec:
            return self._archive.open(path, locator)
        return container(locator.container).open(path, locator)

    def _with_companions(self, item: SourceItem) -> tuple[SourceItem, bytes | Rejection]:
        """The item with what its companions say, and its bytes.

        Members are read in the order of the archive, which may be compressed.
        """
        members: dict[str, bytes] = {}
        data = b""
        try:
            for name, member in self._members(item, {"": item.locator}):
                members[name] = member
            data = members.pop("")
            said = self._companion_fields.read(self._fields_of(members))
        except Rejection as rejection:
            kept = rejection.data if "" in members or not data else data
            return item, rejection.with_data(kept)
        return item.annotated(said), data

    def companion_fields(self, item: SourceItem) -> Mapping[str, Any]:
        """What the companions of an item say: the keys of .json, and txt and cls.

        Raises:
            Rejection: They are damaged.
            UnreadableError: An I/O error.
        """
        return self._fields_of(dict(self._members(item, {})))

    def _members(
        self, item: SourceItem, others: Mapping[str, Locator]
    ) -> Iterator[tuple[str, bytes]]:
        """The companions of an item and other members of its archive, by name, in its order."""
        members = {**others, **dict(item.locator.companions)}
        for name, locator in sorted(members.items(), key=lambda one: one[1].offset):
            source = partial(self._open, item.path, locator)
            yield name, _read_all(source, None, self._extractor.limit)

    def _fields_of(self, found: Mapping[str, bytes]) -> dict[str, Any]:
        """The fields of .cls, .json and .txt: the keys of .json, and txt and cls."""
        fields: dict[str, Any] = {}
        if "json" in found:
            try:
                fields = json.loads(found["json"])
            except (ValueError, RecursionError) as error:
                raise Rejection("bad-companion", f"its .json is not JSON: {error}") from None
            if not isinstance(fields, dict):
                kind = type(fields).__name__
                raise Rejection("bad-companion", f"its .json is a {kind}, not an object")
        texts: dict[str, Any] = {
            name: found[name].strip() for name in ("cls", "txt") if name in found
        }
        label = next((texts[name] for name in texts if name == "cls" or "json" not in found), None)
        named = self._options.main_label or DEFAULT_LABEL
        # Another key than the usual one was asked for, and is not what .cls says.
        if label is not None and (named == DEFAULT_LABEL or named not in fields):
            fields = {**fields, named: label}
        return {**texts, **fields}

    def _rejected_by_listing(self, item: SourceItem) -> UnusableRecord:
        """An item that listing rejected, with its bytes if it has some and is of the corpus."""
        data = None
        locator = item.locator
        if item.reason != NO_ROW and is_file(item.path):  # a pipe might be waited for without end
            try:
                if locator.gaps:
                    data = b"".join(
                        self._gap(item.path, locator, offset, size) for offset, size in locator.gaps
                    )
                else:
                    raw = self._open(item.path, locator)
                    data = bytes_within(opened(raw), self._extractor.limit)
            except (Rejection, UnreadableError):
                data = None
        return self._rejected(item, Rejection(item.reason, item.detail, stage="list", data=data))

    def _gap(self, path: bytes, locator: Locator, offset: int, size: int) -> bytes:
        """Bytes of a damaged archive that belong to no member, as far as they can be read."""
        with self._open(path, locator._replace(offset=offset, size=size)) as raw:
            return raw.read() or b""


def stored_range(item: SourceItem) -> storage.Range | None:
    """The bytes of an item, if it is in an object store and they are read, as a whole."""
    locator = item.locator
    if locator.codec or locator.is_split or item.reason == NO_ROW:
        return None
    file = file_of(item.replacement or item.path)
    if item.replacement or not locator.container:
        return storage.range_of(file, 0, item.size)
    members = [locator, *(companion for _, companion in locator.companions)]
    ends = [one.offset + max(one.size, _ZIP_HEADER_BYTES + one.stored_size) for one in members]
    start = min(one.offset for one in members)
    return storage.range_of(file, start, max(ends) - start)


def formats_of_job(
    options: PreprocessOptions, extractor: RecordExtractor
) -> Callable[[str], Format]:
    """The formats of a job by their names in FORMATS, made when they are first used."""
    return functools.cache(lambda name: FORMATS[name].load()(options, extractor))


def read_part(
    part: FilePart,
    form: Format,
    replacements: Mapping[str, Replacement],
    label: str | None = None,
) -> Iterator[ReadResult]:
    """Every record of a part, in order.

    Args:
        part: The part.
        form: Its format.
        replacements: Files in place of records, by their place.
        label: Label of records that cannot be parsed, if listing decides it.
    """

    def rejected(place: str, rejection: Rejection) -> UnusableRecord:
        if rejection.data is not None and len(rejection.data) > form.limit:
            rejection = rejection.with_data(None)
        return UnusableRecord(_record_id(part, place), rejection.at("read"), label)

    records = form.find(part) if replacements else form.find_parsed(part)
    is_empty = not part.locator.is_split
    while True:
        try:
            one = next(records, None)
        except Rejection as rejection:
            yield rejected("", rejection)
            return
        if one is None:
            break
        is_empty = False
        if isinstance(one, RawRecord):
            yield one
            continue
        if isinstance(one, IgnoredPart):
            yield IgnoredPart(_record_id(part, one.record_id))
            continue
        replacement = replacements.get(one.place)
        if replacement is not None:
            one = _replaced(one, replacement, form.limit)
        if isinstance(one, FoundRejection):
            yield rejected(one.place, one.rejection)
            continue
        try:
            record = RawRecord(_record_id(part, one.place), *form.parse(one, part)[1:])
        except Rejection as rejection:
            yield rejected(one.place, rejection.with_data(one.data))
        else:
            yield record
    if is_empty:  # a file in which nothing is found must not vanish: it may be of another format
        noun = form.extractor.plural
        kept = bytes_within(opened(part.source()), _KEPT_BYTES)
        empty = Rejection(f"no-{noun}", f"the file has no {noun}", stage="read", data=kept)
        yield UnusableRecord(part.file_id, empty, label)


def _record_id(part: FilePart, place: str) -> str:
    return f"{part.file_id}/{place}" if place else part.file_id


def _replaced(
    found: FoundRecord | FoundRejection, file: Replacement, limit: int
) -> FoundRecord | FoundRejection:
    """A record with the bytes of a file in place of its own; unchanged if the bytes are equal."""
    data = read_file(file.path, file.size, limit)
    before = found.data if isinstance(found, FoundRecord) else found.rejection.data
    return found if data == before else FoundRecord(found.place, data, found.context)


def _codec_of_head(head: bytes, name: str, form: str) -> str:
    """The compression of a file of a format, or of "auto", by its first bytes."""
    may_be_tfrecord = form in ("auto", "tfrecord")
    if may_be_tfrecord and is_frame(head[:12]):
        return ""  # a record of 35,615 bytes begins as a gzip file does
    codec = codec_of(head)
    if not codec and head.startswith(ZLIB_MAGIC):
        named = form == "auto" and "tfrecord" in name.lower()
        return "zlib" if form == "tfrecord" or named else ""
    return codec


def _read_all(source: OpenRaw, item: SourceItem | None, limit: int) -> bytes:
    """All bytes of something that is not compressed; a plain file with few system calls.

    Raises:
        Rejection: They are more than the limit, or damaged, with what could be read.
        UnreadableError: An I/O error.
    """
    if item is not None:
        check_size(item.size, limit)  # as declared: before anything is decompressed
        if item.replacement or not item.locator.container:
            return read_file(item.replacement or item.path, item.size, limit)
    with source() as raw:
        data = raw.look(limit + 1)
        check_size(len(data), limit)
        if raw.damage is not None:
            raise raw.damage.with_data(data or raw.damage.data)
    return data
