"""Stage 5, commit: index, quarantine, metadata and, last of all, the manifest.

Without manifest.json there is no shard set; a build that is killed here runs the commit again and
writes the same bytes.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.corpus.annotations.objects import DROPPED
from beam_jobs.counters import sum_counters
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import report
from beam_jobs.stages.commit.build_info import corpus_warnings, staging_notes, write_build_info
from beam_jobs.stages.commit.duplicates import (
    WrittenFile,
    planned_duplicates,
    write_duplicates_part,
)
from beam_jobs.stages.commit.fingerprints import write_fingerprints
from beam_jobs.stages.commit.index import IndexResult, read_notes
from beam_jobs.stages.commit.nothing_kept import nothing_kept
from beam_jobs.stages.commit.quarantine import write_quarantine
from beam_jobs.stages.commit.statistics import SplitSums
from beam_jobs.stages.labels import with_class_names
from beam_jobs.stages.list import Listing
from beam_jobs.stages.plan import Plan, load_plan
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.removed import read_planned, removed_before
from beam_jobs.workspace import Workspace
from foundation import storage
from shard_format import (
    InputError,
    Ledger,
    Manifest,
    ShardInfo,
    SplitInfo,
    file_info,
    naming,
)
from shard_format.croissant import write_description
from shard_format.fingerprint_files import files_in
from shard_format.manifest import IndexPart
from shard_format.removed_records import RemovedRecords
from shard_format.schema import KEPT_IN_INDEX
from shard_format.shard_list import write_shard_list
from shard_format.tfds_metadata import tfds_files


class WrittenParts(NamedTuple):
    """Parts of the set that are written before the commit, or as it takes them.

    Attributes:
        indexes: The parts of the index of every split.
        others: Those of the quarantine and of the duplicates; None if the commit writes them.
        items: Those of the list of items.
    """

    indexes: Iterable[IndexResult]
    others: list[WrittenFile] | None = None
    items: Sequence[WrittenFile] = ()


def commit(
    summaries: Sequence[UnitSummary],
    parts: WrittenParts,
    listing: Listing,
    started: float,
    context: JobContext,
) -> Manifest:
    """Turns finished shards into a shard set.

    Args:
        summaries: All units.
        parts: What workers have written, or write as it is taken.
        listing: Listing of the corpus.
        started: When the build began, in seconds since the epoch.
        context: The job.

    Raises:
        EmptySetError: Every record was rejected; nothing of the set is written then.
        InputError: There is another set.
    """
    options, record_type, workspace = context.options, context.record_type, context.workspace
    plan = load_plan(workspace)
    ledger = _ledger(summaries, plan)
    if not (ledger.kept or options.keep_empty or options.base):  # a generation may have none
        raise nothing_kept(ledger, summaries, workspace)
    if parts.others is None:
        left_out = sum(summary.read - summary.kept for summary in summaries)
        report(workspace.progress, "commit", total=left_out)
    schema = with_class_names(record_type.schema, plan.class_names)
    written = list(parts.indexes)
    splits, tables = dict[str, SplitInfo](), dict[str, list[dict[str, Any]]]()
    for name in plan.num_shards:
        own = sorted((one for one in written if one.split == name), key=lambda part: part.file)
        splits[name], tables[name] = _split(name, plan, own, context)
    contents = tfds_files(options.name, schema, splits)
    given = record_type.files(workspace)
    contents |= {name: storage.read_bytes(path) for name, path in given.items()}
    for name, content in contents.items():
        _write(workspace, name, content)
    files = [*contents, *(naming.shards_file(name) for name in splits if splits[name].index)]
    removed = read_planned(workspace)
    others = parts.others
    if others is None:
        others = [write_duplicates_part(task, workspace) for task in planned_duplicates(plan)]
        files += write_quarantine(workspace, summaries, removed)
    by_workers: list[IndexResult | WrittenFile] = [*written, *others]
    files += _write_removed(workspace, removed, options)
    fingerprints = write_fingerprints(context, summaries, plan, removed, parts.items)
    manifest = Manifest(
        name=options.name,
        schema=schema,
        splits=splits,
        ledger=ledger,
        config=options.config()
        | record_type.config()
        | plan.settled
        | ({KEPT_IN_INDEX: True} if record_type.kept_columns or options.sample_weight else {}),
        files={name: file_info(workspace.out / name) for name in files}
        | {one.file: {"bytes": one.bytes, "sha256": one.sha256} for one in by_workers},
    )
    _remove_strangers(workspace, manifest, fingerprints)
    filled = {name: described for name, described in tables.items() if splits[name].records}
    notes = staging_notes(summaries, listing, context)
    warnings = corpus_warnings(summaries, listing)
    plan = plan._replace(notes=[*plan.notes, *notes], warnings=[*plan.warnings, *warnings])
    write_build_info(workspace, listing, started, plan, summaries, options, manifest, fingerprints)
    write_description(workspace.out, manifest, filled, workspace.scratch_of)
    # A manifest that survives a power cut must not name files that do not: all of them are durable.
    _write_manifest(workspace, manifest.to_text().encode())
    return manifest


def _ledger(summaries: Sequence[UnitSummary], plan: Plan) -> Ledger:
    reasons: Counter[str] = Counter()
    for summary in summaries:
        reasons.update(summary.refused)
        reasons.update(summary.filtered)
    reasons.update(plan.filtered)
    reasons.subtract(plan.excluded_refused)
    reasons.subtract(plan.excluded_filtered)
    staged = sum(summary.kept for summary in summaries)
    by_plan = sum(plan.filtered.values())
    refused, filtered = map(_total, (plan.excluded_refused, plan.excluded_filtered))
    return Ledger(
        read=sum(summary.read for summary in summaries),
        kept=staged - plan.excluded - plan.duplicates - by_plan,
        duplicates=plan.duplicates,
        filtered=by_plan - filtered + sum(_total(summary.filtered) for summary in summaries),
        quarantined=sum(_total(summary.refused) for summary in summaries) - refused,
        reasons={name: count for name, count in sorted(reasons.items()) if count},
        repeated=plan.repeated,
        not_enlarged=plan.counted.get("not_enlarged", 0),
        dropped_objects={
            name.removeprefix(DROPPED): count
            for name, count in plan.counted.items()
            if name.startswith(DROPPED) and count
        },
        excluded=plan.excluded + refused + filtered,
    )


def _total(counts: Mapping[str, int]) -> int:
    return sum(counts.values())


def _write_removed(
    workspace: Workspace, removed: RemovedRecords, options: PreprocessOptions
) -> list[str]:
    """Writes the records that the set keeps out; a generation those that no earlier one names."""
    if options.base:
        removed = removed.without(removed_before(options))
    names = [naming.REMOVED, naming.REMOVED_COPY]
    for name in names:
        if any(removed):
            _write(workspace, name, removed.to_bytes())
        else:
            storage.delete(workspace.out / name)
    return names if any(removed) else []


def _split(
    split: str, plan: Plan, parts: Sequence[IndexResult], context: JobContext
) -> tuple[SplitInfo, list[dict[str, Any]]]:
    """The shards of one split, the parts of its index, its statistics, and its tables."""
    workspace, training = context.workspace, split == plan.training
    sums = SplitSums(plan.class_names, context.record_type, training=training)
    counted: list[pa.Table] = []
    tables: list[dict[str, Any]] = []

    def shards() -> Iterator[ShardInfo]:
        for part in parts:
            notes = read_notes(workspace, part)
            sums.merge(notes.sums)
            counted[:] = [sum_counters([*counted, notes.counters])]
            tables.append(notes.table)
            yield from notes.shards

    infos: Sequence[ShardInfo]
    if len(parts) > 1:
        place = workspace.out / naming.shards_file(split)
        infos = write_shard_list(place, shards(), scratch=workspace.scratch_of(place))
    else:
        infos = tuple(shards())
    statistics = sums.with_counters(counted[0]) if training else sums.statistics()
    index = tuple(IndexPart(part.file, part.shards) for part in parts) if len(parts) > 1 else ()
    return SplitInfo(infos, statistics, index), tables


def _write(workspace: Workspace, name: str, content: bytes) -> None:
    with workspace.write(workspace.out / name, durable=True) as file:
        file.write(content)


def _write_manifest(workspace: Workspace, content: bytes) -> None:
    """Makes a shard set of the files.

    In an object store a set that another build has finished meanwhile is not replaced. A local
    build holds a lock, and not every file system can create a whole file only if there is none.

    Raises:
        InputError: There is another set.
    """
    place = workspace.out / naming.MANIFEST
    if storage.local_path(place) is not None:
        _write(workspace, naming.MANIFEST, content)
        return
    try:
        storage.write_bytes(place, content, if_absent=True)
    except FileExistsError:
        if storage.read_bytes(place) != content:
            raise InputError(
                f"Another build has finished a set in {workspace.out} meanwhile. Choose another "
                "--out."
            ) from None


def _remove_strangers(
    workspace: Workspace, manifest: Manifest, fingerprints: Mapping[str, Any]
) -> None:
    """Deletes files of the set's kinds that an unfinished build with other options left behind."""
    known = {*manifest.files, *fingerprints}
    for name, split in manifest.splits.items():
        known |= {*naming.table_files(name, len(split.index))}
    strangers = [
        name for name in _present(workspace) if name not in known and not _is_shard(name, manifest)
    ]
    for name in sorted(strangers):
        storage.delete(workspace.out / name)
    for folder in (naming.DUPLICATES_DIR, naming.FINGERPRINTS_DIR):
        path = storage.local_path(workspace.out / folder)
        if path is not None:
            with contextlib.suppress(OSError):  # there are files in it, or it is not there
                path.rmdir()


def _is_shard(name: str, manifest: Manifest) -> bool:
    """Whether a file is a shard of the set: there may be millions, so their names are not kept."""
    shard = naming.parse_shard_file(name)
    if shard is None or shard.split not in manifest.splits:
        return False
    number = len(manifest.splits[shard.split].shards)
    own = naming.shard_file(manifest.name, shard.split, shard.shard, number)
    return shard.shard < number and name == own


def _present(workspace: Workspace) -> Iterator[str]:
    """The names, relative to the set, of all files that a build may have written."""
    for entry in storage.list_folder(workspace.out):
        if naming.parse_shard_file(entry.name) or entry.name.endswith(naming.LABELS_SUFFIX):
            yield entry.name
    for folder in (naming.INDEX_DIR, naming.QUARANTINE_DIR, naming.DUPLICATES_DIR):
        if storage.is_folder(workspace.out / folder):  # there may be none
            for entry in storage.list_folder(workspace.out / folder):
                file = f"{folder}/{entry.name}"
                if folder != naming.DUPLICATES_DIR or naming.DUPLICATES_PART.fullmatch(file):
                    yield file
    yield from files_in(workspace.out)
    yield from (naming.DUPLICATES, *naming.TOKENIZERS.values())
