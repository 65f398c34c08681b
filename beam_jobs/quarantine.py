"""Rejected records of a set: list them, export their originals, build again with replacements."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beam_jobs.corpus.record import NO_ROW
from beam_jobs.corpus.replacements import original_path, own_path
from beam_jobs.moved_sources import known_sources, merged_options, replayed_sources
from beam_jobs.options import OPTIONS, PreprocessOptions
from beam_jobs.staging.removed import removed_lists
from foundation import storage
from foundation.storage import Place
from foundation.wording import did_you_mean
from shard_format import InputError, UsageError, load_build, load_manifest, naming
from shard_format.dropped import QUARANTINE_SCHEMA, RejectedRecord, read_rejected

FILES = "files"  # the originals, in a folder that `export` wrote
TABLE = "quarantine.tsv"
_FILE_COLUMN = "file"  # of the table: the original, relative to the folder


class Reason(NamedTuple):
    """All records that were rejected for one reason.

    Attributes:
        stage: "list", "read", "prepare", or "filter" for rules that the user chose.
        reason: Its name.
        records: Number of records.
        bytes: Total size of their originals.
        record_id: The first record.
        detail: What was found in the first record.
    """

    stage: str
    reason: str
    records: int
    bytes: int
    record_id: str
    detail: str


def rejected_records(directory: Place) -> Iterator[RejectedRecord]:
    """Yields every rejected record of a set, in listing order.

    Raises:
        ShardSetError: There is no set.
        DamageError: A part of its quarantine is missing or is not Parquet.
    """
    for record, _ in read_rejected(directory, load_manifest(directory)):
        yield record


def reasons(directory: Place) -> list[Reason]:
    """Returns the reasons for which records of a set were rejected, the most frequent first."""
    by_key: dict[tuple[str, str], Reason] = {}
    for record in rejected_records(directory):
        key = (record.stage, record.reason)
        before = by_key.get(key, Reason(*key, 0, 0, record.record_id, record.detail))
        size = record.bytes or 0
        by_key[key] = before._replace(records=before.records + 1, bytes=before.bytes + size)
    return sorted(by_key.values(), key=lambda reason: (-reason.records, reason.reason))


class Exported(NamedTuple):
    """The result of an export.

    Attributes:
        written: Number of files.
        without_bytes: Records that have no original (a broken link, a file that is too large).
        in_source: Files that no row of --labels names: their bytes are in the source alone.
    """

    written: int
    without_bytes: int
    in_source: int


def export(
    directory: Place,
    folder: Path,
    chosen: Sequence[str] = (),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Writes the originals of rejected records to FOLDER/files, and a table of them next to it.

    Args:
        directory: The set.
        folder: An empty or a new folder.
        chosen: Reasons; all if there are none.
        on_progress: Called with (records done, records in all).

    Raises:
        InputError: The folder is not empty or cannot be written to, or no record was rejected for
            such a reason.
    """
    total = check_reasons(directory, chosen)
    try:
        return _export(directory, folder, chosen, lambda done: on_progress(done, total))
    except OSError as error:
        raise InputError(
            f"Cannot write {error.filename or folder}: {error.strerror}. Make room there, or "
            "choose another folder."
        ) from error


def _export(
    directory: Place, folder: Path, chosen: Sequence[str], on_progress: Callable[[int], None]
) -> Exported:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty. Choose an empty or a new folder.")
    storage.make_folder(folder / FILES)
    parents = _parents(directory, folder / FILES, chosen)
    written = without = in_source = 0
    names = list(QUARANTINE_SCHEMA.names)
    names.insert(1, _FILE_COLUMN)
    with storage.create(folder / TABLE) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        table = csv.DictWriter(text, names, delimiter="\t", lineterminator="\n")
        table.writeheader()
        for record, original in read_rejected(directory, load_manifest(directory)):
            if chosen and record.reason not in chosen:
                continue
            file = ""
            if record.bytes is None and record.reason == NO_ROW:
                in_source += 1
            elif record.bytes is None:
                without += 1
            else:
                path = original_path(folder / FILES, record.record_id)
                path = own_path(path) if path in parents else path
                storage.make_folder(path.parent)
                storage.write_bytes(path, original.as_py())
                file = path.relative_to(folder).as_posix()
                written += 1
            table.writerow({**record._asdict(), _FILE_COLUMN: file})  # None is written as ""
            on_progress(written + without + in_source)
        text.detach()  # flushes; the file is closed by `create`
    return Exported(written, without, in_source)


def check_reasons(directory: Place, chosen: Sequence[str]) -> int:
    """How many records were rejected for the chosen reasons; for any reason if none is chosen.

    Raises:
        InputError: No record was rejected for one of them.
    """
    all_reasons = reasons(directory)
    total = sum(reason.records for reason in all_reasons if not chosen or reason.reason in chosen)
    unknown = [name for name in chosen if name not in {reason.reason for reason in all_reasons}]
    if total and not unknown:
        return total
    if not all_reasons:
        raise InputError(f"No record of {directory} was rejected.")
    names = sorted({reason.reason for reason in all_reasons})
    known, near = ", ".join(names), "".join(did_you_mean(name, names) for name in unknown)
    raise InputError(
        f"No record of {directory} was rejected for {', '.join(unknown)}. {near}Choose from: "
        f"{known}."
    )


def _parents(directory: Place, files: Path, chosen: Sequence[str]) -> set[Path]:
    """Every folder that an original goes to; that of a damaged a.tar may have the same path."""
    parents: set[Path] = set()
    for record in rejected_records(directory):
        if not chosen or record.reason in chosen:
            parents.update(original_path(files, record.record_id).parents)
    return parents


def may_ask_again(directory: Place) -> bool:
    """Whether a set is of lists of URLs, of which a replay asks some again and keeps the rest.

    Raises:
        UsageError: It is of such lists, and nothing that was fetched was kept.
    """
    options = load_build(directory).get("options")
    if not isinstance(options, dict) or options.get("url_column") is None:
        return False
    if options.get("keep_originals") is None:
        raise UsageError(
            f"{directory} was built without --keep-originals, so a replay would fetch all of its "
            "URLs again. Pass --keep-originals FOLDER to do that, and to keep what they give."
        )
    return True


def replay_options(
    directory: Place, repaired: Place | None, sources: Sequence[str], changes: dict[str, Any]
) -> PreprocessOptions:
    """The job that built a set, or one generation, with replacement files and other options.

    Args:
        directory: The set, or the folder of an appended generation.
        repaired: A folder that `export` wrote, or one of files by record id; None if only options
            change.
        sources: Where the corpus is now; none if it has not moved.
        changes: Options by field name.

    Raises:
        InputError: The set does not say how it was built, or the folder is missing.
        UsageError: Jobs on such records do not have one of the options, or the sources are not
            those of all builds of the set.
    """
    build = load_build(directory)
    builds = len(build.get("compacted", ()))
    if builds > 1 and not sources:
        raise UsageError(
            f"{directory} was compacted from {builds} builds, which a replay makes one of. Name "
            "the sources of all with --sources, or append repaired files with 'shardmill "
            "preprocess ... --append'."
        )
    saved = build.get("options")
    if not isinstance(saved, dict):
        raise InputError(
            f"{directory / naming.BUILD} has no options of the build, so it cannot be replayed. "
            "Run 'shardmill preprocess' again on the corrected corpus."
        )
    folders = list(saved["repaired"])
    if repaired is not None:
        files = repaired / FILES
        folder = storage.absolute(str(files if storage.is_folder(files) else repaired))
        folders = [folder, *(known for known in folders if known != folder)]
    values = {**saved, **changes, "repaired": tuple(folders)}
    values["sources"] = tuple(saved["sources"])
    if sources:
        merged = [known_sources(one) for one in merged_options(build)]
        now = replayed_sources(directory, merged, sources)
        values["sources"] = tuple(dict.fromkeys(source for one in now for source in one))
    # What was left out stays out, also where the file of --exclude-ids is gone.
    values |= {"kept_out": tuple(removed_lists(directory)), "exclude_ids": None}
    values |= {name: value for name, value in changes.items() if name == "exclude_ids"}
    values.pop("notes", None)  # what they say was settled is an option now
    kind = OPTIONS[values.get("record_type") or "image"]
    values = {**kind.absent(), **values}  # of a set from before these options
    if values.get("url_column") is not None:
        values["replays"] = (saved.get("replays") or 0) + 1
    known = {field.name for field in dataclasses.fields(kind)}
    if foreign := sorted(changes.keys() - known):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in foreign)
        raise UsageError(
            f"{flags} does not apply: {directory} has {kind.record_type} records. Leave it out."
        )
    return kind(**{name: value for name, value in values.items() if name in known})
