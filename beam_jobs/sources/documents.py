"""Documents: files of any format in folders, in archives, or named one by one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents import FORMATS
from beam_jobs.documents.base import Stretch
from beam_jobs.documents.content import HEAD_BYTES, container_of, format_of
from beam_jobs.documents.reading import ReadDocument
from beam_jobs.mended import MendedFiles
from beam_jobs.options import TextOptions
from beam_jobs.options.values import SPLIT_BY_FOLDER
from beam_jobs.sources.archives import item_of
from beam_jobs.sources.base import BatchSource, Item
from beam_jobs.sources.beside import Names, ShardSets, describes, known_names
from beam_jobs.sources.class_folders import file_item, walk_root
from beam_jobs.sources.compression import codec_of_head
from beam_jobs.sources.contents import Contents, Entry
from beam_jobs.sources.document_places import Where, archives
from beam_jobs.sources.document_reading import PartReader
from beam_jobs.sources.naming import (
    SPLIT_NAMES,
    is_left_out,
    prefixes,
    readable_name,
    split_name,
    split_of_file,
)
from beam_jobs.sources.packed import Listed, PackedFiles
from beam_jobs.sources.streams import Range, opened
from beam_jobs.sources.tar import Tar
from beam_jobs.sources.zip import Zip

_MIN_CUT_BYTES = 1 << 20  # 1 MiB: a smaller file is not cut
_HEADER_BYTES = 512  # of a tar
# Files that describe those beside them: of TFDS, Hugging Face, Spark and shardmill.
_NOTES = frozenset(
    "dataset_info.json dataset_infos.json dataset_dict.json state.json features.json manifest.json "
    "build.json metadata.json croissant.json _SUCCESS".split()
)
_DESCRIBED = (".parquet", ".arrow", ".feather", "tfrecord")

Found = tuple[Item, tuple[str, ...]]  # and the names of the folders that it lies in


class Documents(BatchSource):
    """Every file below the roots, every member of an archive, stretches of huge files of lines."""

    options: TextOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.formats = {name: form(options) for name, form in FORMATS.items()}
        self._archives: dict[str, PackedFiles] = {"tar": Tar(options), "zip": Zip(options)}
        self._names_of: dict[bytes, Names] = {}
        self._by_split = options.split == SPLIT_BY_FOLDER
        self._needs_folder = not options.no_labels and options.label_column is None

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        mended = MendedFiles([Path(folder) for folder in self.options.repaired])
        for number, (item, folders) in enumerate(find(roots, on_ignored), start=1):
            kind = "" if item.refused else self.container(item)
            if kind:
                listed = self._listed(item, kind, folders, number, on_ignored)
            else:
                item = mended.in_place_of(item) if self.options.repaired else item
                listed = self._stretches(self._placed(item, item.record_id, folders))
            names = "" if item.refused else self._names(item.path).digest
            for one in listed:
                if names:
                    where = Where.parse(one.locator)._replace(beside=names)
                    one = one._replace(locator=str(where))
                yield self._with_mended(one, mended) if self.options.repaired else one
        if self.options.repaired:
            mended.check_matched()

    @contextmanager
    def open_documents(
        self, items: Sequence[Item], scratch: Path
    ) -> Iterator[Callable[[Item], Iterator[ReadDocument]]]:
        """See BatchSource."""
        mended = MendedFiles([Path(folder) for folder in self.options.repaired])
        with archives(scratch) as opened_archives:
            reader = PartReader(
                self.options, self.formats, opened_archives, mended, scratch, self._names
            )
            yield reader.read

    def container(self, item: Item) -> str:
        """Which archive a file is; "" if it is none, or cannot be read."""
        try:
            with opened(Range(item.path)) as file:
                head = file.head(_HEADER_BYTES)
                found = container_of(head)
            codec = "" if found else codec_of_head(head)
            if codec:
                with opened(Range(item.path), codec) as file:
                    found = container_of(file.head(_HEADER_BYTES))
                return found if found == "tar" else ""
            return found
        except OSError:
            return ""  # reading says why

    def members(
        self, listed: Listed, kind: str, on_ignored: Callable[[str], None]
    ) -> Iterator[Entry]:
        """The files in an archive that are not hidden.

        Raises:
            Rejection: It cannot be read.
            OSError: Likewise.
        """
        for one in self._archives[kind].entries(listed):
            if any(is_left_out(part.encode()) for part in one.name.split("/")):
                on_ignored(f"{listed.file.record_id}/{one.name}")
            else:
                yield one

    def _names(self, path: bytes) -> Names:
        """The class names that the folder of a file gives the numbers of the label column."""
        folder = os.path.dirname(path)
        if folder not in self._names_of:
            column = self.options.label_column
            self._names_of[folder] = known_names(folder, column) if column else Names((), "")
        return self._names_of[folder]

    def _listed(
        self,
        file: Item,
        kind: str,
        folders: tuple[str, ...],
        number: int,
        on_ignored: Callable[[str], None],
    ) -> Iterator[Item]:
        """The members of an archive."""
        listed = Listed(file)
        try:
            contents = Contents(self.members(listed, kind, on_ignored), self.options)
        except (Rejection, OSError) as error:
            reason = str(error) if isinstance(error, Rejection) else f"unreadable: {error.strerror}"
            yield file._replace(refused=reason)
            return
        archive = file._replace(block=number if listed.compressed else 0)
        around = _outer_folder(contents) if self._needs_folder else None
        for one in contents:
            item = item_of(archive, one)
            inside = tuple(one.name.split("/")[:-1])
            if around is not None and not (self._by_split and split_name(around)):
                inside = inside[1:]
            item = item._replace(locator=str(Where(kind, item.locator)))
            yield self._placed(item, item.record_id, inside or folders)
        if listed.damage is not None:
            why, place = listed.damage
            where = str(Where(kind, place)) if place else ""
            yield archive._replace(size=0, refused=f"damaged-archive: {why}", locator=where)

    def _placed(self, item: Item, file_id: str, folders: tuple[str, ...]) -> Item:
        """The item with what its folders say."""
        split = None
        if self._by_split:
            split = split_of_file(file_id)
            named = next((at for at, name in enumerate(folders) if split_name(name)), None)
            if named is not None:
                folders = folders[:named] + folders[named + 1 :]
        label = folders[0] if folders and not self.options.no_labels else None
        item = item._replace(label=label, split=split)
        if item.refused:
            return item
        if self._by_split and split is None:
            expected = ", ".join(SPLIT_NAMES)
            reason = f"with --split folders a file must lie in, or be named for, one of {expected}"
            return item._replace(refused=f"no-split-folder: {reason}")
        if label is None and self._needs_folder:
            return item._replace(refused="no-class-folder: the file lies beside the class folders")
        return item

    def _stretches(self, item: Item) -> Iterator[Item]:
        """The file, or its stretches if it is large and of a format that can be cut."""
        found: tuple[str, list[Stretch]] = "", []
        if not item.refused and item.size > _MIN_CUT_BYTES:
            found = self._cut(item)
        form, stretches = found
        if len(stretches) < 2:
            yield item
            return
        for start, end, size in stretches:
            where = str(Where(form=form, start=start, end=end))
            # A name of its own, since units are cut by it.
            name = f"{item.record_id}/{start:012d}"
            yield item._replace(record_id=name, size=size, locator=where)

    def _cut(self, item: Item) -> tuple[str, list[Stretch]]:
        """(format, stretches) of a large file; none if it cannot be cut."""
        form = self.options.format
        path = item.repaired or item.path
        try:
            with opened(Range(path)) as file:
                head = file.head(HEAD_BYTES)
            if codec_of_head(head):
                return "", []
            if form == "auto":
                form = format_of(head, item.record_id.rpartition("/")[2])
            if form not in self.formats:
                return "", []
            with opened(Range(path)) as file:
                return form, self.formats[form].stretches(file, item.size)
        except OSError:
            return "", []  # reading says why

    def _with_mended(self, item: Item, mended: MendedFiles) -> Item:
        """The item with what tells its unit that documents of it were mended."""
        where = Where.parse(item.locator)
        if where.container and not item.refused:
            item = mended.in_place_of(item)
        file_id = item.record_id.rpartition("/")[0] if where.is_stretch else item.record_id
        below = {
            place: file
            for place, file in mended.below(file_id).items()
            if where.start <= int(place) and (where.end < 0 or int(place) < where.end)
        }
        if not below:
            return item
        told = [(place, size, changed) for place, (_, size, changed) in below.items()]
        digest = hashlib.blake2b(repr([where.beside, told]).encode(), digest_size=8).hexdigest()
        return item._replace(locator=str(where._replace(beside=digest)))


def find(roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Found]:
    """Every file that the roots are or hold, in an order that depends on names alone.

    Raises:
        InputError: A root is missing, or two roots have the same name.
    """
    sets = ShardSets(roots)
    for prefix, root in prefixes(roots):
        if root.is_dir():
            for item, folders in walk_root(prefix, root, on_ignored):
                shards = sets.around(os.path.dirname(item.path))
                if shards is not None:
                    if item.path in shards:
                        yield item, folders
                elif _is_note(item.path):
                    on_ignored(item.record_id)
                else:
                    yield item, folders
            continue
        file_id = prefix.removesuffix("/") or readable_name(os.fsencode(root.name))
        yield file_item(file_id, os.fsencode(root), root.stat()), ()


def _is_note(path: bytes) -> bool:
    """Whether a file describes files of records beside it."""
    folder, name = os.path.split(os.fsdecode(path))
    if name not in _NOTES and not describes(path):
        return False
    try:
        beside = os.listdir(folder)
    except OSError:
        return False
    return any(mark in other for other in beside for mark in _DESCRIBED)


def _outer_folder(contents: Contents) -> str | None:
    """The folder around all others of an archive, as packing a folder makes it.

    A file right below it is one beside the class folders.
    """
    outer, nests = None, False
    for one in contents:
        top, *below = one.name.split("/")
        if not below or (outer is not None and top != outer):
            return None
        outer, nests = top, nests or len(below) > 1
    return outer if nests else None
