"""What a set refused: listed, written out, and built again with mended files."""

from __future__ import annotations

import csv
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.corpus.replacements import original_path, own_path
from beam_jobs.options import OPTIONS, PreprocessOptions
from beam_jobs.workspace import read_json
from shard_format import DamageError, InputError, Manifest, UsageError, load_manifest, naming

FILES = "files"  # the originals, in a folder that was exported
TABLE = "quarantine.tsv"
# Where a set that is replaced waits until the new one has its name.
_BEFORE = f"{naming.WORK_DIR}/before"
_COLUMNS = ("record_id", "file", "label", "stage", "reason", "detail", "bytes")


class Reason(NamedTuple):
    """All records refused for one reason.

    Attributes:
        stage: "list", "read", "prepare", or "filter" for rules that the user chose.
        reason: Its name.
        records: How many.
        bytes: Of their originals.
        record_id: The first of them.
        detail: What was found in it.
    """

    stage: str
    reason: str
    records: int
    bytes: int
    record_id: str
    detail: str


def refused(directory: Path, *, with_bytes: bool = False) -> Iterator[dict[str, Any]]:
    """Every refused record of a set, in listing order.

    Args:
        directory: The set.
        with_bytes: Whether to read the originals too, one row group at a time; otherwise "bytes"
            holds their number, None where none was kept.

    Raises:
        ShardSetError: There is no set.
        DamageError: A part of its quarantine is missing or no longer Parquet.
    """
    manifest = load_manifest(directory)
    for name in sorted(manifest.files):
        if not name.startswith(f"{naming.QUARANTINE_DIR}/"):
            continue
        for table in _row_groups(directory, name):
            if not with_bytes:
                sizes = pc.binary_length(table["bytes"])
                table = table.set_column(table.column_names.index("bytes"), "bytes", sizes)
            yield from table.to_pylist()


def _row_groups(directory: Path, name: str) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(directory / name) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)
    except (pa.ArrowException, OSError) as error:
        raise DamageError(
            f"the quarantine must be Parquet files as they were written, got {error} in "
            f"{directory / name}. Run 'shardmill verify {directory}'."
        ) from error


def reasons(directory: Path) -> list[Reason]:
    """The reasons for which records of a set were refused, the most frequent first."""
    found: dict[tuple[str, str], Reason] = {}
    for row in refused(directory):
        key = (row["stage"], row["reason"])
        before = found.get(key, Reason(*key, 0, 0, row["record_id"], row["detail"]))
        size = row["bytes"] or 0
        found[key] = before._replace(records=before.records + 1, bytes=before.bytes + size)
    return sorted(found.values(), key=lambda reason: (-reason.records, reason.reason))


class Exported(NamedTuple):
    """What was written out.

    Attributes:
        written: Files.
        without_bytes: Records of which no original was kept (a broken link, a larger file).
    """

    written: int
    without_bytes: int


def export(
    directory: Path,
    folder: Path,
    chosen: Sequence[str] = (),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Writes the originals of refused records to FOLDER/files, and a table of them beside.

    Args:
        directory: The set.
        folder: An empty or a new folder.
        chosen: Reasons; all if there are none.
        on_progress: Called with (records done, records in all).

    Raises:
        InputError: The folder holds something or cannot be written to, or no record was refused
            for such a reason.
    """
    total = check_reasons(directory, chosen)
    try:
        return _export(directory, folder, chosen, lambda done: on_progress(done, total))
    except OSError as error:
        raise InputError(
            "originals must be written to a folder that can be written to and has room, got "
            f"'{error.strerror}' for {error.filename or folder}. Make room or choose another one."
        ) from error


def _export(
    directory: Path, folder: Path, chosen: Sequence[str], on_progress: Callable[[int], None]
) -> Exported:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"originals are written to an empty or a new folder, got {folder}, which holds "
            "something. Choose another one."
        )
    (folder / FILES).mkdir(parents=True, exist_ok=True)
    folders = _folders(directory, folder / FILES, chosen)
    written = without = 0
    with (folder / TABLE).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(_COLUMNS)
        for row in refused(directory, with_bytes=True):
            if chosen and row["reason"] not in chosen:
                continue
            place, size = "", ""
            if row["bytes"] is None:
                without += 1
            else:
                path = original_path(folder / FILES, row["record_id"])
                path = own_path(path) if path in folders else path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(row["bytes"])
                place = path.relative_to(folder).as_posix()
                size = str(len(row["bytes"]))
                written += 1
            described = (row["label"] or "", row["stage"], row["reason"], row["detail"])
            table.writerow((row["record_id"], place, *described, size))
            on_progress(written + without)
    return Exported(written, without)


def check_reasons(directory: Path, chosen: Sequence[str]) -> int:
    """How many records were refused for some reasons; for any, if none is chosen.

    Raises:
        InputError: No record was refused for one of them.
    """
    found = reasons(directory)
    total = sum(reason.records for reason in found if not chosen or reason.reason in chosen)
    unknown = [name for name in chosen if name not in {reason.reason for reason in found}]
    if unknown or not total:
        known = ", ".join(sorted({reason.reason for reason in found})) or "none at all"
        asked = ", ".join(unknown) if unknown else "all"
        raise InputError(
            f"a reason must be one for which {directory} refused a record ({known}), got {asked}. "
            f"See 'shardmill quarantine list {directory}'."
        )
    return total


def _folders(directory: Path, files: Path, chosen: Sequence[str]) -> set[Path]:
    """Every folder that the originals will lie in; a damaged a.tar has the path of one."""
    found: set[Path] = set()
    for row in refused(directory):
        if not chosen or row["reason"] in chosen:
            found.update(original_path(files, row["record_id"]).parents)
    return found


def replay_options(
    directory: Path, repaired: Path | None, sources: Sequence[str], changes: dict[str, Any]
) -> PreprocessOptions:
    """The job that built a set, with mended files and other options.

    Args:
        directory: The set.
        repaired: A folder that `export` wrote, or one of files by record id; None if only options
            change.
        sources: Where the corpus lies now; none if it lies where it was.
        changes: Options by field name.

    Raises:
        InputError: The set does not say how it was built, or the folder is missing.
        UsageError: An option is none of jobs on such records.
    """
    load_manifest(directory)
    build = read_json(directory / naming.BUILD)
    saved = build.get("options") if isinstance(build, dict) else None
    if not isinstance(saved, dict):
        raise InputError(
            f"a replay needs the options of the build, got none in {directory / naming.BUILD}. "
            "Run 'shardmill preprocess' again on the mended corpus instead."
        )
    folders = list(saved["repaired"])
    if repaired is not None:
        files = repaired / FILES
        folder = os.path.abspath(files if files.is_dir() else repaired)
        folders = [folder, *(known for known in folders if known != folder)]
    values = {**saved, **changes, "repaired": tuple(folders)}
    values["sources"] = tuple(sources or saved["sources"])
    kind = OPTIONS[values.get("record_type") or "image"]
    known = {field.name for field in dataclasses.fields(kind)}
    if foreign := sorted(changes.keys() - known):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in foreign)
        raise UsageError(
            f"a replay takes options of the job that built the set, got {flags} and a set of "
            f"{kind.record_type} records. Leave it out."
        )
    return kind(**{name: value for name, value in values.items() if name in known})


class Replacement:
    """A new set in the place of an old one: built beside it, then renamed.

    The old set is moved into the new one's work folder before that takes its name, so nothing is
    removed that was not made here. A crash between the two renames leaves it there; the next
    replay puts it back first.

    Args:
        directory: The set; a link to one stays a link.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.new = self.directory.with_name(f"{self.directory.name}.replay")
        before = self.new / _BEFORE
        if before.exists() and not self.directory.exists():
            before.rename(self.directory)

    def finish(self) -> Manifest:
        """Takes the old set away and gives the new one its name."""
        before = self.new / _BEFORE
        before.parent.mkdir(exist_ok=True)
        self.directory.rename(before)
        self.new.rename(self.directory)
        shutil.rmtree(self.directory / naming.WORK_DIR, ignore_errors=True)
        return load_manifest(self.directory)
