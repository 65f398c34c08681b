"""What a bounded look at documents tells a job: their columns, and what labels them."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.mended import MendedFiles
from beam_jobs.options import TextOptions
from beam_jobs.options.values import SPLIT_BY_FOLDER, parse_kept, parse_names
from beam_jobs.sources.archives import item_of
from beam_jobs.sources.base import Item
from beam_jobs.sources.cells import wanted_columns
from beam_jobs.sources.document_places import Where, archives
from beam_jobs.sources.document_reading import PartReader
from beam_jobs.sources.documents import Documents, find
from beam_jobs.sources.naming import is_left_out, prefixes, split_name
from beam_jobs.sources.packed import Listed
from shard_format import InputError

_LABEL = "label"
_MAX_FILES = 64  # opened to see what they hold
_MAX_MEMBERS = 64  # of one archive
_MAX_COMPRESSED_MEMBERS = 8  # since going over one means decompressing it
_MAX_BYTES = 16 << 20  # 16 MiB of such a member
_MAX_ENTRIES = 4096  # of a folder, looked for files beside the class folders
# Files that people put beside class folders, which do not mean that there are none.
_BESIDE = re.compile(
    r"(readme|licen[cs]e|copying|notice|changelog|changes|citation|authors|contributing)([._-].*)?",
    re.IGNORECASE,
)
# What text columns are mostly called.
_USUAL = ("text", "content", "document", "body", "article", "review", "sentence", "markdown")
_COLUMN_FLAGS = {"label": "--label-column", "group": "--group-by", "split": "--split column:"}


class _Look(NamedTuple):
    """What was seen.

    Attributes:
        tables: The first records of each file that has columns, by its id.
        has_others: Whether there are documents without columns, beside those that describe.
        lie_in_folders: Whether every such document lies in a folder of its class.
    """

    tables: dict[str, list[dict[str, Any]]]
    has_others: bool
    lie_in_folders: bool

    def table(self, columns: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
        """(id, first records) of the first file that has one of some columns, or of the first."""
        for file_id, rows in self.tables.items():
            if any(column in row for row in rows for column in columns):
                return file_id, rows
        return next(iter(self.tables.items()))


def resolve_documents(options: TextOptions) -> TextOptions:
    """The options with the label column that was meant, or without labels.

    Raises:
        InputError: A column is named that is not there, or labels are needed and there are none.
    """
    look = _look(options)
    if look is None:
        return options  # listing says what is wrong
    if look.tables:
        _check_columns(options, look)
    elif columns := _named_columns(options):
        flag, column = next(iter(columns.items()))
        raise InputError(
            f"{flag} must name a column, got {column!r} and the sources hold plain text, which has "
            "none. Give JSON, CSV or Parquet files, or leave it out."
        )
    if options.no_labels or options.label_column is not None:
        return options
    if look.tables:
        _, rows = look.table(parse_names("--text-column", options.text_column))
        if _LABEL in rows[0]:
            return dataclasses.replace(options, label_column=_LABEL)
    elif look.lie_in_folders:
        return options
    _check_needs_none(options, look)
    return dataclasses.replace(options, no_labels=True)


def _look(options: TextOptions) -> _Look | None:
    """A bounded look at the sources; None if there is nothing in them."""
    source = Documents(dataclasses.replace(options, repaired=()))
    roots = [Path(path) for path in options.sources]
    tables: dict[str, list[dict[str, Any]]] = {}
    seen, others, in_folders = 0, False, True
    with (
        tempfile.TemporaryDirectory() as folder,
        archives(scratch := Path(folder, "member"), _MAX_BYTES) as opened,
    ):
        reader = PartReader(options, source.formats, opened, MendedFiles(()), scratch)
        for item, folders in itertools.islice(_files(source, roots, options), _MAX_FILES):
            where = Where.parse(item.locator)
            try:
                part, form = reader.part(item, where, partial(opened.raw, item, where))
                rows = form.columns(part)
            except (Rejection, OSError):
                continue
            seen += 1
            if rows:
                tables[item.record_id] = rows
            elif not _BESIDE.fullmatch(item.record_id.rpartition("/")[2]):
                others = True
                in_folders = in_folders and bool(folders)
    if not seen:
        return None
    return _Look(tables, others, in_folders and _no_file_beside(roots, options))


def _files(
    source: Documents, roots: Sequence[Path], options: TextOptions
) -> Iterator[tuple[Item, tuple[str, ...]]]:
    """Files and members of archives, with the folders that may be classes."""
    for item, folders in find(roots, lambda _: None):
        if item.refused:
            continue
        kind = source.container(item)
        if not kind:
            yield item, _without_split(folders, options)
            continue
        listed = Listed(item)
        entries = source.members(listed, kind, lambda _: None)
        try:
            for number, one in enumerate(entries, start=1):
                if number > (_MAX_COMPRESSED_MEMBERS if listed.compressed else _MAX_MEMBERS):
                    break
                inside = tuple(one.name.split("/")[:-1])
                if not one.refused:
                    member = item_of(item, one)
                    where = Where(kind, member.locator)
                    member = member._replace(locator=str(where))
                    yield member, _without_split(inside or folders, options)
        except (Rejection, OSError):
            continue


def _without_split(folders: tuple[str, ...], options: TextOptions) -> tuple[str, ...]:
    """The folders but the first that names a split, if that is what folders are for."""
    if options.split != SPLIT_BY_FOLDER:
        return folders
    named = next((at for at, name in enumerate(folders) if split_name(name)), None)
    return folders if named is None else folders[:named] + folders[named + 1 :]


def _no_file_beside(roots: Sequence[Path], options: TextOptions) -> bool:
    """Whether all files below the roots lie in folders, but those that describe the rest."""
    folders = [os.fsencode(root) for _, root in prefixes(roots)]
    if options.split == SPLIT_BY_FOLDER:
        inside = [entry for folder in folders for entry in _entries(folder)]
        splits = [one for one in inside if split_name(os.fsdecode(os.path.basename(one)))]
        folders += [one for one in splits if os.path.isdir(one)]
    for folder in folders:
        for path in _entries(folder):
            name = os.fsdecode(os.path.basename(path))
            if os.path.isfile(path) and not _BESIDE.fullmatch(name) and not _is_archive(path):
                return False
    return True


def _entries(folder: bytes) -> list[bytes]:
    try:
        with os.scandir(folder) as entries:
            some = itertools.islice(entries, _MAX_ENTRIES)
            return sorted(entry.path for entry in some if not is_left_out(entry.name))
    except OSError:
        return []


def _is_archive(path: bytes) -> bool:
    return re.search(rb"\.(zip|tar|tgz|tar\.\w+|t(gz|zst|xz|bz2))$", path.lower()) is not None


def _named_columns(options: TextOptions) -> dict[str, str]:
    """The columns that the options name, by flag."""
    return {_COLUMN_FLAGS[use]: name for use, name in wanted_columns(options).items()}


def _check_columns(options: TextOptions, look: _Look) -> None:
    """Returns if some of the first records have each column.

    Raises:
        InputError: None has.
    """
    all_found = {name for rows in look.tables.values() for row in rows for name in row}
    texts = parse_names("--text-column", options.text_column)
    file_id, rows = look.table(texts)
    found = list(dict.fromkeys(name for row in rows for name in row))
    # Beside plain text, a table of something else is a matter of its own records.
    wanted = [] if look.has_others else [("--text-column", name) for name in texts]
    wanted += list(_named_columns(options).items())
    wanted += [("--keep-columns", name) for name, _ in parse_kept(options.keep_columns)]
    for flag, name in wanted:
        if name in all_found:
            continue
        shown = ", ".join(f"{one!a:.60}" for one in found[:30]) or "none"
        hint = "Name one of these."
        if flag == "--text-column" and (guess := _guess(rows)):
            hint = f"Say --text-column {guess}."
        elif flag == "--label-column":
            hint = "Name one of these, or say --no-labels."
        if len(found) == 1 and (found[0].count(";") or found[0].count("\t")):
            hint += " The header looks separated by something else than the format says."
        raise InputError(
            f"{flag} must name a column or field, got {name!r} and {file_id} has {shown}. {hint}"
        )


def _guess(rows: list[dict[str, Any]]) -> str:
    """The column that most likely holds documents; "" if none can."""
    texts: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str):
                texts[name] = texts.get(name, 0) + len(value)
    usual = [name for name in _USUAL for found in texts if found.lower() == name]
    named = [found for name in usual for found in texts if found.lower() == name]
    if named:
        return named[0]
    return max(texts, key=lambda name: texts[name], default="")


def _check_needs_none(options: TextOptions, look: _Look) -> None:
    """Returns if the job can do without labels.

    Raises:
        InputError: It cannot.
    """
    flags = {
        "--multi-label": options.multi_label,
        "--stratify": options.stratify,
        f"--balance {options.balance}": options.balance != "none",
    }
    for flag, is_given in flags.items():
        if is_given:
            where = "not every file lies in a class folder"
            if look.tables:
                file_id, rows = look.table(parse_names("--text-column", options.text_column))
                where = f"{file_id} has the columns {', '.join(map(ascii, rows[0]))}"
            raise InputError(
                f"{flag} needs labels, got none: {where}. Name a column with --label-column, or "
                "make one folder per class."
            )
