"""The members of one archive in columns, and the layout that their names reveal.

In WebDataset form, members with the same key (0001.jpg, 0001.cls) are one record.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.containers.base import NO_BYTES, Member
from beam_jobs.corpus.item_table import row_batch
from beam_jobs.corpus.record import Locator, Rejection

_BATCH_ROWS = 8192
_LOCATOR_FIELDS = (  # the first ones, which a member has
    pa.field("container", pa.string()),
    pa.field("codec", pa.string()),
    pa.field("offset", pa.int64()),
    pa.field("size", pa.int64()),
    pa.field("stored_size", pa.int64()),
    pa.field("crc", pa.int64()),
    pa.field("method", pa.int32()),
)
_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        *_LOCATOR_FIELDS,
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
_COMPANIONS = ("cls", "json", "txt")  # the first that a record has is its label
_MAX_COMPANION_BYTES = 16 << 20  # 16 MiB; a label is shorter


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
        members = iter(members)
        while some := list(itertools.islice(members, _BATCH_ROWS)):
            rows = [
                (one.name, *one.locator[: len(_LOCATOR_FIELDS)], one.reason, one.detail)
                for one in some
            ]
            self._batches.append(row_batch(rows, _SCHEMA))
        self.is_webdataset = _is_webdataset(self._names(), is_primary, no_labels)
        # Records decide: a LICENSE.txt next to the class folders must not make one class of all.
        has_records = any(map(is_primary, self._names()))
        self.outer_folder = _outer_folder(
            filter(is_primary, self._names()) if has_records else self._names()
        )
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
                name, *fields, reason, detail = values
                if name in seen:
                    seen[name] += 1
                yield Member(name, Locator(*fields), reason, detail, seen.get(name, 1))

    def _names(self) -> Iterator[str]:
        """The names of the members that can be used."""
        for batch in self._batches:
            usable = pc.equal(batch["reason"], "")
            yield from batch["name"].filter(usable).to_pylist()

    def _find_repeated(self) -> list[str]:
        if not self._batches:
            return []
        names = pa.Table.from_batches(self._batches)["name"]
        if pc.count_distinct(names).as_py() == len(names):
            return []
        counts = pc.value_counts(names)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        return list(repeated.to_pylist())


def _split_key(name: str) -> tuple[str, str]:
    """(key, extension) of a member: they meet at the first dot of the last part of the name."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


def _is_webdataset(
    names: Iterable[str], is_primary: Callable[[str], bool], no_labels: bool
) -> bool:
    """Whether a record and a companion that follow each other have the same key."""

    def kind(name: str) -> str:
        extension = _split_key(name)[1]
        if extension in ("cls", "json") or (extension == "txt" and (no_labels or "/" not in name)):
            return "companion"
        return "primary" if is_primary(name) else ""

    groups = itertools.groupby(names, key=lambda name: _split_key(name)[0])
    return any({"companion", "primary"} <= set(map(kind, group)) for _, group in groups)


def _outer_folder(names: Iterable[str]) -> str | None:
    """The folder around all class folders of some files; None if there is none."""
    outer = None
    for name in names:
        top, *below = name.split("/", 2)
        if len(below) < 2 or outer not in (None, top):
            return None
        outer = top
    return outer


class MemberGroup(NamedTuple):
    """One record of an archive in WebDataset form.

    Attributes:
        member: Its payload.
        companions: Extension and member of what describes it.
        rejection: Why it cannot be used, or None.
    """

    member: Member
    companions: tuple[tuple[str, Member], ...] = ()
    rejection: Rejection | None = None


def member_groups(
    index: ArchiveIndex,
    is_primary: Callable[[str], bool],
    *,
    needs_one: bool,
    needs_companion: bool,
    on_ignored: Callable[[str], None],
) -> Iterator[MemberGroup]:
    """The records of an archive.

    Args:
        index: Its members.
        is_primary: Whether a member is a payload, by its name.
        needs_one: Whether several payloads with one key are rejected, for a label is of one.
        needs_companion: Whether a payload without companion is rejected.
        on_ignored: Called with the name of every member that is neither.
    """
    for group in _same_key(index):
        first = group[0]
        if first.reason:
            yield MemberGroup(first, rejection=Rejection(first.reason, first.detail))
            continue
        by_extension = {_split_key(member.name)[1]: member for member in group}
        primary = [member for member in group if is_primary(member.name)]
        exact = [member for member in primary if "." not in _split_key(member.name)[1]]
        if len(exact) == 1 and needs_one:
            primary = exact  # next to 7.jpg, a 7.seg.png is a mask
        companions = tuple(
            (name, by_extension[name])
            for name in _COMPANIONS
            if name in by_extension
            and by_extension[name].locator.size != NO_BYTES
            and by_extension[name].locator.size <= _MAX_COMPANION_BYTES
        )
        rejection = None
        if not primary:
            rejection = Rejection("no-picture", "no image has the same key")
            primary = group
        elif len(primary) > 1 and needs_one:
            rejection = Rejection("several-pictures", f"{len(primary)} images have one key")
        elif needs_companion and not companions:
            detail = f"no {', '.join(_COMPANIONS)} has the same key"
            rejection = Rejection("no-companion", detail)
        for member in group:
            if member in primary:
                yield MemberGroup(member, companions, rejection)
            elif _split_key(member.name)[1] not in _COMPANIONS:
                on_ignored(member.name)


def _same_key(index: ArchiveIndex) -> Iterator[list[Member]]:
    """Members that follow each other with the same key; alone, each that cannot be used."""
    key, group = "", list[Member]()
    for member in index:
        own_key, _ = _split_key(member.name)
        if member.reason:
            yield [member]
        elif own_key == key:
            group.append(member)
        else:
            if group:
                yield group
            key, group = own_key, [member]
    if group:
        yield group
