"""The members of one archive in columns, and the layout that their names reveal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.containers.base import Member

_BATCH_ROWS = 8192
_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("stored_size", pa.int64()),
        pa.field("crc", pa.int64()),
        pa.field("method", pa.int32()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
COMPANIONS = ("cls", "json", "txt")  # the first that a record has is its label


class ArchiveIndex:
    """The members of one archive: a million of them take about 100 MB.

    Args:
        members: In the order of the archive.
        is_primary: Whether a member is a record, by its name; others only go with records.
        no_labels: Whether records have no labels: then a .txt companion is never a class.

    Attributes:
        is_webdataset: Whether records have companions with the same key (0001.jpg, 0001.cls).
        outer_folder: The folder around all class folders, as packing a folder makes it; None if
            there is none.
    """

    def __init__(
        self, members: Iterable[Member], is_primary: Callable[[str], bool], no_labels: bool
    ) -> None:
        self._batches: list[pa.RecordBatch] = []
        rows: list[Member] = []
        layout = _Layout(is_primary, no_labels)
        for member in members:
            rows.append(member)
            if not member.reason:
                layout.see(member.name)
            if len(rows) == _BATCH_ROWS:
                self._keep(rows)
        self._keep(rows)
        self.is_webdataset = layout.is_webdataset
        self.outer_folder = layout.outer_folder()
        self._repeated = self._find_repeated()

    @property
    def is_empty(self) -> bool:
        """Whether the archive has no file."""
        return not self._batches

    def __iter__(self) -> Iterator[Member]:
        """Every member in order; of a repeated name with the number of the copy."""
        seen: dict[str, int] = dict.fromkeys(self._repeated, 0)
        for batch in self._batches:
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                member = Member(*values)
                if member.name in seen:
                    seen[member.name] += 1
                    member = member._replace(copy=seen[member.name])
                yield member

    def _keep(self, rows: list[Member]) -> None:
        if rows:
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*rows, strict=True), _SCHEMA, strict=False)
            ]
            self._batches.append(pa.record_batch(columns, schema=_SCHEMA))
            rows.clear()

    def _find_repeated(self) -> list[str]:
        if not self._batches:
            return []
        names = pa.Table.from_batches(self._batches)["name"]
        if pc.count_distinct(names).as_py() == len(names):
            return []
        counts = pc.value_counts(names)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        return list(repeated.to_pylist())


def split_key(name: str) -> tuple[str, str]:
    """(key, extension) of a member: they meet at the first dot of the last part of the name."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


class _Layout:
    """What the names of an archive reveal about its layout."""

    def __init__(self, is_primary: Callable[[str], bool], no_labels: bool) -> None:
        self.is_webdataset = False
        self._is_primary = is_primary
        self._no_labels = no_labels
        self._key, self._kinds = "", set[str]()
        self._primary, self._files = _OuterFolder(), _OuterFolder()

    def see(self, name: str) -> None:
        """Takes the name of the next file into account."""
        key, extension = split_key(name)
        is_primary = self._is_primary(name)
        self._files.see(name)
        if is_primary:
            self._primary.see(name)
        if self.is_webdataset:
            return
        if key != self._key:
            self._key = key
            self._kinds.clear()
        if extension in ("cls", "json") or (
            extension == "txt" and (self._no_labels or "/" not in name)
        ):
            self._kinds.add("companion")
        elif is_primary:
            self._kinds.add("primary")
        self.is_webdataset = len(self._kinds) == 2

    def outer_folder(self) -> str | None:
        """The folder around all others, if there is one.

        Records decide: a LICENSE.txt next to the class folders must not make one class of all.
        """
        return (self._files if self._primary.is_empty else self._primary).folder


class _OuterFolder:
    """The folder around all class folders of some files; None if there is none."""

    def __init__(self) -> None:
        self.is_empty = True
        self.folder: str | None = None

    def see(self, name: str) -> None:
        """Takes the name of the next file into account."""
        if self.is_empty or self.folder is not None:
            top, *below = name.split("/", 2)
            same = len(below) == 2 and (self.is_empty or self.folder == top)
            self.folder = top if same else None
            self.is_empty = False
