"""What a bounded look at a corpus settles before it is listed: source, columns and labels."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.corpus.discovery import find_files
from beam_jobs.corpus.labels import COLUMN_FLAGS, DEFAULT_LABEL, AnnotationReader, flag_of_kept
from beam_jobs.corpus.names import (
    Selection,
    has_archive_name,
    prefixes,
    readable_name,
    split_name,
    without_split,
)
from beam_jobs.corpus.reading import CorpusReader
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.sampling import (
    MAX_FILES,
    describes_others,
    some_entries,
    some_files,
    some_folders,
    some_members,
)
from beam_jobs.corpus.sniffing import IMAGE, UNKNOWN, image_kind
from beam_jobs.corpus.source_io import UnreadableError, path_of
from beam_jobs.corpus.split_folders import settle_split, splits_have_same_classes
from beam_jobs.options import ImageOptions, PreprocessOptions, TextOptions
from beam_jobs.options.formats import CONTAINERS
from beam_jobs.options.values import SPLIT_BY_FOLDER, pattern_groups
from foundation import storage
from foundation.wording import counted, did_you_mean, some_of
from shard_format import InputError

_MAX_COMPANIONS = 1024  # records whose companions are read, if none has a column that is wanted
_MAX_MEMBER_BYTES = 16 << 20  # 16 MiB of such a member
_NEARLY_ALL = 0.9  # of the files that were looked at
_CLASS_FOLDERS = "class-folders"
# Usual names of text columns.
_USUAL = ("text", "content", "document", "body", "article", "review", "sentence", "markdown")


def detect_source(options: ImageOptions) -> ImageOptions:
    """The options with the value of --source that --source auto means.

    A few files of other kinds are left to be rejected, one by one.

    Raises:
        InputError: The files are of several kinds, and none is that of nearly all.
    """
    if options.table is not None:
        return dataclasses.replace(options, source="table")
    by_kind: Counter[str] = Counter()
    named = Counter[str]()  # kinds of files that are sources themselves
    selection = Selection(options)
    places = [storage.place_of(source) for source in options.sources]
    roots = {place: prefix for prefix, place in prefixes(places)} if selection else {}
    for place in places:
        of_source = _kinds_in(place, roots.get(place, ""), selection)
        by_kind += of_source
        named += Counter() if storage.is_folder(place) else of_source
    del by_kind[UNKNOWN]
    if not by_kind:  # listing says what is wrong
        return dataclasses.replace(options, source=_CLASS_FOLDERS)
    most, number = by_kind.most_common(1)[0]
    source = _CLASS_FOLDERS if most == IMAGE else most
    if len(by_kind) == 1:
        return dataclasses.replace(options, source=source)
    kinds = sorted(by_kind)
    counts = ", ".join(f"{by_kind[kind]} {kind}" for kind in kinds)
    # One archive that is named is meant to be read; one among the files of a pattern is not.
    few = named.total() - named[most] <= (1 - _NEARLY_ALL) * len(options.sources)
    if number >= _NEARLY_ALL * by_kind.total() and few:
        note = (
            f"Among the first files are {counts}: --source {source} is used, and files of other "
            "kinds are rejected."
        )
        return dataclasses.replace(options, source=source, notes=(*options.notes, note))
    choices = ", ".join(_CLASS_FOLDERS if kind == IMAGE else kind for kind in kinds)
    raise InputError(
        f"Found files of several kinds among the first in {some_of(options.sources)}: {counts}. "
        f"Choose one with --source ({choices}), or name the files."
    )


def _kinds_in(root: storage.Place, prefix: str, selection: Selection) -> Counter[str]:
    """Numbers of some files of a source that are read, by what they are; `prefix` is of its ids."""
    start = len(path_of(root))
    ids = {
        path: prefix + readable_name(path[start:].lstrip(b"/") or os.path.basename(path))
        for path in some_files(root)
    }
    files = [path for path, file_id in ids.items() if not selection.excludes(file_id)]
    kinds = storage.in_parallel(image_kind, files, remote=storage.local_path(root) is None)
    return Counter(
        kind
        for path, kind in zip(files, kinds, strict=True)
        if kind in CONTAINERS or selection.takes(ids[path])
    )


class CorpusSample(NamedTuple):
    """The first records of a corpus.

    Attributes:
        tables: The first records of each file that has columns, by its id.
        folders: The folders around each record without columns, below the root or in its archive;
            files that only describe others are left out.
    """

    tables: dict[str, list[dict[str, Any]]]
    folders: list[tuple[str, ...]]

    def table(self, columns: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
        """(id, first records) of the first file that has one of some columns, or of the first."""
        for file_id, rows in self.tables.items():
            if any(column in row for row in rows for column in columns):
                return file_id, rows
        return next(iter(self.tables.items()))


def infer_labels(options: TextOptions, extractor: FileExtractor) -> TextOptions:
    """The options with the label column and the splits that are meant, or without labels.

    Raises:
        InputError: A column is named that is not there, labels are needed and there are none, or
            folders may be splits or classes.
    """
    sample = _sample(options, extractor)
    if sample is None:
        return settle_split(options, extractor)  # listing says what is wrong
    _check_sample(options, extractor, sample)
    in_folders = not sample.tables and _in_class_folders(sample, options)
    options = settle_split(options, extractor, folders_label=in_folders)
    by_name = "label" in pattern_groups(options.label_pattern)
    has_explicit_labels = options.label_column is not None or options.labels is not None or by_name
    if options.no_labels or has_explicit_labels:
        return options
    if sample.tables:
        _, rows = sample.table(extractor.columns)
        if DEFAULT_LABEL in rows[0]:
            return dataclasses.replace(options, label_column=DEFAULT_LABEL)
    elif _in_class_folders(sample, options):
        return options
    _check_needs_no_labels(options, extractor, sample)
    notes = (*options.notes, *_labels_of_others(sample))
    return dataclasses.replace(options, no_labels=True, notes=notes)


def _labels_of_others(sample: CorpusSample) -> list[str]:
    """A note if the first records have no label, and other ones have."""
    labelled = [
        name for name, rows in sample.tables.items() if any(DEFAULT_LABEL in row for row in rows)
    ]
    if not labelled:
        return []
    return [
        f"No labels are read: the first records have no column {DEFAULT_LABEL!r}, though "
        f"{labelled[0]} has one. --label-column {DEFAULT_LABEL} reads it, and rejects records "
        "without."
    ]


def check_columns(options: PreprocessOptions, extractor: FileExtractor) -> None:
    """Checks that the first files have the columns that the job needs.

    Raises:
        InputError: None has.
    """
    sample = _sample(options, extractor)
    if sample is None:
        return
    # Lists of URLs may have no columns; then folders around them can label what they name.
    if sample.tables or (extractor.weight > 1 and not all(sample.folders)):
        _check_sample(options, extractor, sample)


def check_companions(
    items: Iterable[SourceItem],
    options: PreprocessOptions,
    extractor: FileExtractor,
    scratch: Path,
) -> None:
    """Checks that some of the first members have each column that the options name, but the label.

    Args:
        items: Members of archives; their companions have the columns.
        options: The job.
        extractor: The extractor of the job.
        scratch: A path for files that are removed again.

    Raises:
        InputError: None has.
    """
    wanted = _wanted(AnnotationReader(options), but="label")
    missing = {name for _, name in wanted}
    known: dict[str, None] = {}
    looked: list[str] = []
    with CorpusReader(options, extractor, scratch) as reader:
        usable = (item for item in items if not item.reason)
        for item in itertools.islice(usable if missing else (), _MAX_COMPANIONS):
            with contextlib.suppress(Rejection, UnreadableError):
                known |= dict.fromkeys(reader.companion_fields(item))
                looked.append(item.record_id)
            missing -= known.keys()
            if not missing:
                return
    for flag, name in wanted:
        if looked and name in missing:
            first, *others = looked
            like = f", like {counted(len(others), 'record')} behind it," if others else ""
            raise InputError(_missing(flag, name, f"{first}{like}", list(known), ""))


def _wanted(reader: AnnotationReader, but: str = "") -> list[tuple[str, str]]:
    """(flag, column) of each column that is read, but for one use."""
    wanted = [(COLUMN_FLAGS[use], name) for use, name in reader.wanted.items() if use != but]
    return wanted + [(flag_of_kept(one, reader.options), one.name) for one in reader.kept]


def _sample(options: PreprocessOptions, extractor: FileExtractor) -> CorpusSample | None:
    """A bounded look at the sources; None if they are empty."""
    options = dataclasses.replace(options, repaired=(), on_unreadable="quarantine")
    roots = [storage.place_of(path) for path in options.sources]
    tables: dict[str, list[dict[str, Any]]] = {}
    seen, others = 0, list[tuple[str, ...]]()
    with (
        tempfile.TemporaryDirectory() as folder,
        CorpusReader(options, extractor, Path(folder, "sample"), _MAX_MEMBER_BYTES) as reader,
    ):
        for item, folders in itertools.islice(_files(roots, options, extractor), MAX_FILES):
            try:
                part, form = reader.part(item)
                rows = form.inspect(part)
            except (Rejection, UnreadableError):
                continue
            seen += 1
            if rows:
                tables[item.record_id] = rows
            elif not describes_others(item.record_id):
                others.append(folders)
    return CorpusSample(tables, others) if seen else None


def _in_class_folders(sample: CorpusSample, options: PreprocessOptions) -> bool:
    """Whether every record without columns is in a folder of its class.

    With splits that have the same classes, single files elsewhere are no reason to doubt them:
    aclImdb has lists of URLs next to train/pos and train/neg.
    """
    by_split = options.split == SPLIT_BY_FOLDER
    if by_split and splits_have_same_classes(options):
        return True
    classes = (without_split(folders)[1] if by_split else folders for folders in sample.folders)
    roots = [storage.place_of(path) for path in options.sources]
    return all(classes) and _no_file_next_to_folders(roots, options)


def _files(
    roots: Sequence[storage.Place], options: PreprocessOptions, extractor: FileExtractor
) -> Iterator[tuple[SourceItem, tuple[str, ...]]]:
    """Files and some members of archives, with the folders that may be classes."""
    files = find_files(
        roots, lambda _: None, follow_links=options.follow_links, on_unreadable="quarantine"
    )
    selection = Selection(options)
    for item, folders in files:
        if item.reason or selection.excludes(item.record_id):
            continue
        members = some_members(item, extractor.container_of)
        for member in members or ():
            inside = tuple(member.name.split("/")[:-1]) or folders
            record = item._replace(
                record_id=f"{item.record_id}/{member.name}",
                size=max(0, member.locator.size),
                locator=member.locator,
            )
            if selection.takes(record.record_id, item.record_id):
                yield record, inside
        if members is None and selection.takes(item.record_id):
            yield item, folders


def _no_file_next_to_folders(roots: Sequence[storage.Place], options: PreprocessOptions) -> bool:
    """Whether all files below the roots are in folders, besides those that describe the rest."""
    selection, named = Selection(options), prefixes(roots)
    ids = {root: prefix for prefix, root in named}
    folders: list[storage.Place] = [root for _, root in named]
    if options.split == SPLIT_BY_FOLDER:
        folders += [
            folder / name
            for folder in list(folders)
            for name in some_folders(folder)
            if split_name(name)
        ]
    return not any(
        entry.kind == storage.FILE
        and not describes_others(entry.name)
        and selection.takes(f"{ids.get(folder, f'{folder.name}/')}{entry.name}")
        and not has_archive_name(entry.name)
        for folder in folders
        for entry in some_entries(folder)
    )


def _check_sample(
    options: PreprocessOptions, extractor: FileExtractor, sample: CorpusSample
) -> None:
    """Checks that some of the first records have each column that the options name.

    Raises:
        InputError: None has, or one has a type that cannot be used.
    """
    wanted = _wanted(AnnotationReader(options))
    if not sample.tables:
        if wanted:
            flag, column = wanted[0]
            raise InputError(
                f"{flag} names the column {column!r}, but the sources hold plain text, which has "
                f"no columns. Give JSON, CSV or Parquet files, or {_left_out(flag)}."
            )
        return
    columns_seen = {name for rows in sample.tables.values() for row in rows for name in row}
    file_id, rows = sample.table(extractor.columns)
    # Next to plain text, a table of something else is a matter of its own records.
    if not sample.folders and not _has_record_columns(extractor, columns_seen):
        missing = [name for name in extractor.columns if name not in columns_seen]
        wanted = [*((extractor.column_flag, name) for name in missing), *wanted]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for flag, name in wanted:
        if name not in columns_seen:
            hints = _guess(rows, extractor), _url_column(rows)
            raise InputError(_missing(flag, name, file_id, columns, *hints))
    for name in extractor.columns:
        kind = rows[0].get(name)
        if isinstance(kind, pa.DataType) and not extractor.holds(kind):
            shown = ", ".join(f"{one!a:.60}" for one in columns[:30])
            raise InputError(
                f"{extractor.column_flag} {name!r} of {file_id} has the type {kind}, which cannot "
                f"hold {extractor.plural}. It has the columns {shown}. Name another one."
            )


def _left_out(flag: str) -> str:
    return "use --no-labels" if flag == "--label-column" else "leave it out"


def _has_record_columns(extractor: FileExtractor, found: set[str]) -> bool:
    """Whether the columns of records are there, under their own name or another usual one."""
    return all(name in found for name in extractor.columns) or any(
        name in found for name in extractor.alternatives
    )


def _missing(
    flag: str, name: str, file_id: str, columns: list[str], guess: str, urls: str = ""
) -> str:
    shown = ", ".join(f"{one!a:.60}" for one in columns[:30]) or "none"
    near, hint = did_you_mean(name, columns), "Name one of these."
    if flag in ("--text-column", "--image-column") and urls and guess in ("", urls):
        hint = f"To fetch what {urls!r} names, use --url-column {urls}."
    elif flag in ("--text-column", "--image-column") and guess:
        hint = f"Use {flag} {guess}."
    elif flag == "--label-column":
        hint = "Name one of these, or use --no-labels."
    if len(columns) == 1 and any(delimiter in columns[0] for delimiter in ";\t"):
        near = ""
        hint = "The header seems to use another delimiter: .csv takes commas, .tsv takes tabs."
    return f"{file_id} has no column {name!r} ({flag}). Its columns are {shown}. {near}{hint}"


def _guess(rows: list[dict[str, Any]], extractor: FileExtractor) -> str:
    """The column that most likely holds records; "" if none can."""
    texts: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, pa.DataType):
                if extractor.holds(value):
                    return name
            elif isinstance(value, str) and extractor.holds(pa.string()):
                texts[name] = texts.get(name, 0) + len(value)
    named = [column for name in _USUAL for column in texts if column.lower() == name]
    return named[0] if named else max(texts, key=lambda name: texts[name], default="")


def _url_column(rows: list[dict[str, Any]]) -> str:
    """A column with URLs; "" if there is none."""
    return next(
        (
            name
            for row in rows
            for name, value in row.items()
            if isinstance(value, str) and value.startswith(("http://", "https://"))
        ),
        "",
    )


def _check_needs_no_labels(
    options: TextOptions, extractor: FileExtractor, sample: CorpusSample
) -> None:
    """Checks that the job can do without labels.

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
            fact = "not every file is in a class folder"
            if sample.tables:
                file_id, rows = sample.table(extractor.columns)
                fact = f"{file_id} has the columns {', '.join(map(ascii, rows[0]))}"
            raise InputError(
                f"{flag} needs labels, and there are none: {fact}. Name a column with "
                "--label-column, or make one folder per class."
            )
