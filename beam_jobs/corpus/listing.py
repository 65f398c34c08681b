"""The items of a corpus: files, members of archives, and splits of large files."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence

from beam_jobs.corpus.annotations.table import AnnotationTable
from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.containers.archive_index import ArchiveIndex, member_groups
from beam_jobs.corpus.containers.base import ArchiveReport, Member
from beam_jobs.corpus.containers.base import container as container_named
from beam_jobs.corpus.dataset_metadata import feature_names
from beam_jobs.corpus.discovery import whole_corpus
from beam_jobs.corpus.frames import BEGIN, FramedContent, at_frames, find_frames, one_frame
from beam_jobs.corpus.label_pattern import NameAnnotations
from beam_jobs.corpus.label_table import LabelTable
from beam_jobs.corpus.labels import (
    DEFAULT_LABEL,
    AnnotationReader,
    FolderLabels,
    kept_columns,
    no_split_folder,
    wanted_columns,
)
from beam_jobs.corpus.names import Selection, is_hidden_member, split_name
from beam_jobs.corpus.pieces import CorpusPiece, listing_weight
from beam_jobs.corpus.reading import formats_of_job
from beam_jobs.corpus.record import NO_ROW, Locator, Rejection, SourceItem
from beam_jobs.corpus.record_extractor import ItemExtractor, RecordExtractor
from beam_jobs.corpus.replacements import Replacements
from beam_jobs.corpus.sniffing import HEAD_BYTES
from beam_jobs.corpus.source_io import UnreadableError, file_of, place_of
from beam_jobs.corpus.streams import HEADER_BUFFER_BYTES, FileRange, opened
from beam_jobs.corpus.walk import CorpusWalk, FoundFile, OnIgnored
from beam_jobs.options import ImageOptions, PreprocessOptions
from beam_jobs.options.formats import FORMATS
from beam_jobs.options.values import SPLIT_BY_FOLDER
from foundation import storage
from shard_format import InputError

_MIN_SPLIT_BYTES = 1 << 20  # 1 MiB: a smaller file is not split
_MIN_READ_BYTES = 32 << 20  # 32 MiB: a smaller file is not read to find its splits
_MOST_NAMED = 8  # files
LEAST_PIECE = 64  # part of the bound that a piece is, at least: smaller ones are not worth a task
MOST_RUNS = 1 << 10  # pieces of one folder, of which each takes a task and some small files


class CorpusListing:
    """Lists the items of a corpus, in an order that depends on names alone.

    Args:
        options: The job, with its sources resolved.
        extractor: What the record type takes out of a record.
        on_ignored: Called with the id of every file that is left out on purpose.

    Attributes:
        unselected: Number of files and members that --include and --exclude leave out, so far.
    """

    def __init__(
        self, options: PreprocessOptions, extractor: RecordExtractor, on_ignored: OnIgnored
    ) -> None:
        self._options = options
        self._extractor = extractor
        self._on_ignored = on_ignored
        self._formats = formats_of_job(options, extractor)
        self._selection = Selection(options)
        self.unselected = 0
        self._prefix = f"{options.id_prefix}/" if options.id_prefix else ""
        repaired = [storage.place_of(folder) for folder in options.repaired]
        self._replacements = Replacements(repaired, self._prefix)
        self._labels = _table_of(options)
        self._names = NameAnnotations(options) if options.label_pattern is not None else None
        self._named = False
        self._by_split = options.split == SPLIT_BY_FOLDER
        self._folder_labels = FolderLabels(options, extractor)
        self._class_names_digest = functools.cache(self._read_class_names_digest)
        self._walk = CorpusWalk(on_ignored)

    def items(self, roots: Sequence[storage.Place]) -> Iterator[SourceItem]:
        """Every item; see `piece_items`.

        Args:
            roots: Absolute places of files and folders.

        Raises:
            InputError: A root is missing, a folder cannot be listed, or a table lacks a column.
        """
        return self.piece_items(whole_corpus(roots), roots)

    def piece_items(
        self, piece: CorpusPiece, roots: Sequence[storage.Place], most: int | None = None
    ) -> Iterator[SourceItem]:
        """The items of a piece of the corpus; `rest` gives what is left of it.

        Args:
            piece: Which files.
            roots: Absolute places of all files and folders of the job.
            most: Weight of the files after which the listing stops, where a small file weighs 1;
                None for all.

        Raises:
            InputError: A folder cannot be listed, or a table lacks a column.
        """
        options = self._options
        # Files of a folder keep all workers busy; one that is named may be all there is.
        self._named = len(roots) <= _MOST_NAMED and all(map(storage.stat, roots))
        self._walk = CorpusWalk(
            self._on_ignored,
            functools.partial(listing_weight, extractor=self._extractor),
            follow_links=options.follow_links,
            on_unreadable=options.on_unreadable,
        )
        files = self._walk.files(piece, most)
        items = (
            self._with_context(one)
            for number, (item, folders) in enumerate(storage.ahead(files, self._head), start=1)
            for one in self._checked(self._items_of(item, folders, number), item)
        )
        named = items if self._names is None else self._names.applied(items)
        for item in itertools.chain(named, self._unused()):
            # Last of all: labels go by the names in the corpus.
            yield item._replace(record_id=self._prefix + item.record_id) if self._prefix else item
        self._replacements.check_matched()

    def rest(self, most: int) -> Iterator[tuple[CorpusPiece, int]]:
        """The pieces that a listing has left, each with its weight, in the order of the listing.

        Args:
            most: Weight of a piece, about.
        """
        return self._walk.rest(max(1, most // LEAST_PIECE), MOST_RUNS)

    def _unused(self) -> Iterator[SourceItem]:
        """The rows of the label table whose files were not listed."""
        if self._labels is not None:
            yield from map(self._replacements.applied, self._labels.unused())

    def _head(self, file: FoundFile) -> storage.Range | None:
        """The bytes of a file in an object store that show what it is, if its name does not."""
        item = file.item
        if item.reason or self._extractor.known_format(item):
            return None
        return storage.range_of(file_of(item.path), 0, min(item.size, HEAD_BYTES))

    def _checked(self, items: Iterator[SourceItem], file: SourceItem) -> Iterator[SourceItem]:
        """The items of a file; the file itself, rejected, where it cannot be listed.

        Raises:
            InputError: An I/O error, and the job stops at those.
        """
        try:
            yield from items
        except Rejection as rejection:
            yield file.rejected(rejection)
        except UnreadableError as error:
            if self._options.on_unreadable == "stop":
                raise InputError(
                    f"Cannot read a source: {error}. Nothing was written. Run the same command "
                    "again when it can be read, or with --on-unreadable quarantine."
                ) from error
            yield file.rejected(Rejection("unreadable", str(error.error.strerror)))

    def _items_of(
        self, item: SourceItem, folders: tuple[str, ...], number: int
    ) -> Iterator[SourceItem]:
        if isinstance(self._extractor, ItemExtractor):
            yield from self._extractor.items()
            return
        if self._labels is not None and self._labels.is_this(item):
            self._on_ignored(item.record_id)
            return
        if self._extractor.is_companion(item.path):
            return  # read with the file that it describes
        if self._selection.excludes(item.record_id):
            self._leave_out(item)
            return
        container = "" if item.reason else self._extractor.container_of(item)
        if not (container or self._selection.takes(item.record_id)):
            self._leave_out(item)
            return
        if container:
            yield from self._members(item, container, folders, number)
            return
        item = self._placed(self._replacements.applied(item), folders, None)
        if not self._is_ignored(item):
            yield from self._splits(item)

    def _leave_out(self, item: SourceItem) -> None:
        """Counts an item that is not selected; its row of the label table is used."""
        self.unselected += 1
        if self._labels is not None:
            self._labels.look_up(item)

    def _members(
        self, file: SourceItem, container: str, folders: tuple[str, ...], number: int
    ) -> Iterator[SourceItem]:
        """The records of an archive, and one rejected item for the parts that cannot be read.

        Raises:
            Rejection: It cannot be read at all.
        """
        report = ArchiveReport()
        index = ArchiveIndex(
            self._visible(file, container, report),
            self._extractor.is_primary,
            self._options.no_labels,
        )
        archive = file._replace(block=number if report.codec else 0)
        if index.is_empty and report.damage is None:
            plural = self._extractor.plural
            raise Rejection(f"no-{plural}", "the archive is empty")
        split = self._folder_labels.archive_split(file.record_id)
        if self._extractor.groups_members and index.is_webdataset:
            items = self._webdataset(archive, index, split)
        else:
            items = self._folders_inside(archive, index, folders, split)
        for item in items:
            if not self._selection.takes(item.record_id, file.record_id):
                self._leave_out(item)
            elif not self._is_ignored(item):
                yield self._replacements.applied(item) if item.locator.container else item
        if report.damage is not None:
            gaps = Locator(container, report.codec, gaps=report.gaps) if report.gaps else Locator()
            yield archive._replace(size=0, locator=gaps).rejected(report.damage)

    def _visible(self, file: SourceItem, container: str, report: ArchiveReport) -> Iterator[Member]:
        for member in container_named(container).members(file, report):
            if is_hidden_member(member.name):
                self._on_ignored(f"{file.record_id}/{member.name}")
            else:
                yield member

    def _folders_inside(
        self,
        archive: SourceItem,
        index: ArchiveIndex,
        folders: tuple[str, ...],
        split: str | None,
    ) -> Iterator[SourceItem]:
        """The members of an archive with class folders inside, or around it."""
        self._check_no_columns(archive, index)
        outer = index.outer_folder
        if self._by_split and outer is not None and split_name(outer) is not None:
            outer = None  # it is the split
        for member in index:
            inside = tuple(member.name.split("/")[:-1])
            inside = inside[1:] if outer is not None else inside
            item = _member_item(archive, member)
            around = folders if self._extractor.labels_around_archives else ()
            yield self._placed(item, inside or around, split)

    def _webdataset(
        self, archive: SourceItem, index: ArchiveIndex, split: str | None
    ) -> Iterator[SourceItem]:
        """The records of an archive in WebDataset form; companions are read with the record."""
        reader = AnnotationReader(self._options)
        groups = member_groups(
            index,
            self._extractor.is_primary,
            needs_one=not self._options.no_labels,
            needs_companion=bool(reader.columns),
            on_ignored=lambda name: self._on_ignored(f"{archive.record_id}/{name}"),
        )
        for group in groups:
            item = _member_item(archive, group.member)._replace(split=split)
            if reader.columns:
                companions = tuple((name, member.locator) for name, member in group.companions)
                item = item._replace(locator=item.locator._replace(companions=companions))
            if group.rejection is not None:
                item = item.rejected(group.rejection)
            elif self._by_split and split is None:
                item = item.rejected(no_split_folder())
            yield self._from_table(item)

    def _check_no_columns(self, archive: SourceItem, index: ArchiveIndex) -> None:
        """Checks that the job asks for no column that only companions could have.

        Raises:
            InputError: It does.
        """
        columns = wanted_columns(self._options)
        columns.pop("label", None)
        columns |= {one.name: one.name for one in kept_columns(self._options)}
        if (
            self._extractor.groups_members
            and columns
            and self._labels is None
            and not index.is_empty
        ):
            raise InputError(
                f"{archive.record_id} has no .json files next to its images with the columns "
                f"{', '.join(map(repr, columns.values()))}. Leave out --group-by, --split "
                "column:, --keep-columns and further names of --label-column, add the files, or "
                "name a table with --labels."
            )

    def _placed(self, item: SourceItem, folders: tuple[str, ...], split: str | None) -> SourceItem:
        """The item with what its folders and the label table say."""
        if self._labels is None:
            return self._folder_labels.placed(item, folders, split)
        if self._by_split:
            item = self._folder_labels.placed(item, folders, split)
        return self._from_table(item)

    def _from_table(self, item: SourceItem) -> SourceItem:
        """The item with what the label table says, if there is one."""
        if self._labels is None:
            return item
        annotations = self._labels.look_up(item)
        if item.reason:
            return item
        if annotations is None and self._holds(item):
            annotations = self._labels.without(item)
        if annotations is None:
            return item.rejected(Rejection(NO_ROW, self._labels.absent))
        if isinstance(annotations, Rejection):
            return item.rejected(annotations)
        item = item.annotated(annotations)
        if item.label is None and not self._options.no_labels:
            column = self._options.main_label or DEFAULT_LABEL
            return item.rejected(Rejection("no-label", f"its row has no {column!r}"))
        return item

    def _is_ignored(self, item: SourceItem) -> bool:
        """Whether a file holds no records, and no row of the label table names it: README.md."""
        if item.reason != NO_ROW or self._holds(item):
            return False
        self._on_ignored(item.record_id)
        return True

    def _holds(self, item: SourceItem) -> bool:
        """Whether a file may hold records, by its name."""
        if item.locator.container:
            return self._extractor.is_primary(item.record_id)
        return self._extractor.may_hold(item.path)

    def _splits(self, item: SourceItem) -> Iterator[SourceItem]:
        """The file, or its splits if it is large and of a format that can be split."""
        splits = list[tuple[Locator, int]]()
        if not item.reason and item.size > _MIN_SPLIT_BYTES // self._extractor.weight:
            splits = self._split(item)
        if len(splits) < 2:
            yield item
            return
        for locator, size in splits:
            # A name of its own, since units are cut by it.
            name = f"{item.record_id}/{locator.start:012d}"
            yield item._replace(record_id=name, size=size, locator=locator)

    def _split(self, item: SourceItem) -> list[tuple[Locator, int]]:
        """(where, bytes) of each split of a large file; none if it cannot be split."""
        path = item.replacement or item.path
        form = self._extractor.known_format(item)
        if form and FORMATS[form].is_record:
            return []
        with opened(FileRange(path)) as file:
            head = file.head(HEAD_BYTES)
        codec = codec_of(head)
        if codec:
            return [] if item.replacement else self._split_at_frames(item, codec)
        form = form or self._extractor.format_of(head, item.record_id.rpartition("/")[2])
        if form not in FORMATS or not self._may_split(form, path, item.size):
            return []
        with opened(FileRange(path), buffer_bytes=HEADER_BUFFER_BYTES) as file:
            splits = self._formats(form).splits(file, item.size)
        return [
            (Locator(format=form, start=start, end=end, seek=seek), size)
            for start, end, seek, size in splits
        ]

    def _may_split(self, form: str, path: bytes, size: int) -> bool:
        """Whether to look for the splits of a file: some formats read all of it to find them."""
        if not self._formats(form).reads_to_split:
            return True
        least = _MIN_READ_BYTES // self._extractor.weight
        return size > least and storage.local_path(place_of(path)) is not None

    def _split_at_frames(self, item: SourceItem, codec: str) -> list[tuple[Locator, int]]:
        """As `_split`, of a compressed file; each split begins in another of its frames."""
        frames = find_frames(item.path, codec)
        if frames is None and self._named and item.size > _MIN_READ_BYTES // 8:
            frames = one_frame(item.path, codec)
        if frames is None:
            return []
        content = functools.partial(FramedContent, item.path, codec, BEGIN, frames.end)
        with opened(content()) as file:
            head = file.head(HEAD_BYTES)
        form = self._extractor.format_of(head, item.record_id.rpartition("/")[2])
        if form not in FORMATS or not self._formats(form).splits_bytes:
            return []
        if not self._may_split(form, item.path, frames.end.content):
            return []
        with opened(content(), buffer_bytes=HEADER_BUFFER_BYTES) as file:
            splits = self._formats(form).splits(file, frames.end.content)
        return [
            (
                Locator(
                    codec=codec,
                    offset=frame.stored,
                    size=frames.end.content,
                    stored_size=frames.end.stored,
                    format=form,
                    start=split.start,
                    end=split.end,
                    seek=frame.content,
                ),
                split.bytes,
            )
            for split, frame in at_frames(splits, frames)
        ]

    def _with_context(self, item: SourceItem) -> SourceItem:
        """The item with a hash of what else decides its records, so that its unit depends on it."""
        said = ""
        # Only of TFRecord files are the class names in another file.
        named = not item.reason and self._extractor.known_format(item) in ("", "tfrecord")
        if named and self._options.label_column is not None and self._labels is None:
            said = self._class_names_digest(os.path.dirname(item.path))
        if self._replacements:
            locator = item.locator
            file_id = item.record_id
            file_id = file_id.rpartition("/")[0] if locator.is_split else file_id
            below = [
                (place, file.size, file.mtime_ns)
                for place, file in self._replacements.below(file_id).items()
                if locator.start <= int(place) and (locator.end < 0 or int(place) < locator.end)
            ]
            if below:
                text = repr([said, below]).encode()
                said = hashlib.blake2b(text, digest_size=8).hexdigest()
        return item._replace(locator=item.locator._replace(context=said)) if said else item

    def _read_class_names_digest(self, folder: bytes) -> str:
        return feature_names(folder, self._options.label_columns).digest


def _table_of(options: PreprocessOptions) -> LabelTable | AnnotationTable | None:
    """What describes the files one by one; None if nothing does."""
    if options.labels is not None:
        return LabelTable(options)
    if isinstance(options, ImageOptions) and options.annotations is not None:
        return AnnotationTable(options)
    return None


def _member_item(archive: SourceItem, member: Member) -> SourceItem:
    """The item that a member is, without its label."""
    copy = f"//{member.copy}" if member.copy > 1 else ""
    return archive._replace(
        record_id=f"{archive.record_id}/{member.name}{copy}",
        size=max(0, member.locator.size),
        reason=member.reason,
        detail=member.detail,
        locator=member.locator,
    )
