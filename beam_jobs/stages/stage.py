"""Stage 2, stage: one unit of raw records becomes a key-sorted run of finished payloads.

The items of a unit are read in the order of the listing, and their records prepared in batches. Ids
are known only once records are read, so payload and the rows of the sidecar are spooled as they
come and put in shuffle order at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import int64
from beam_jobs.corpus.kept_values import kept_value
from beam_jobs.corpus.labels import check_annotated, kept_columns
from beam_jobs.corpus.licenses import check_license, license_id
from beam_jobs.corpus.reading import CorpusReader, stored_range
from beam_jobs.corpus.record import (
    FILTER,
    IgnoredPart,
    RawRecord,
    ReadResult,
    Rejection,
    SourceItem,
    UnusableRecord,
)
from beam_jobs.corpus.source_io import (
    SourceChangedError,
    UnreadableError,
    change_of,
    is_readable,
    read_path,
)
from beam_jobs.job_context import JobContext
from beam_jobs.memory import release_memory
from beam_jobs.options.values import parse_names, splits_are_given
from beam_jobs.progress import SteadyReports, report
from beam_jobs.rejects import RejectWriter
from beam_jobs.staging.listed_items import read_unit
from beam_jobs.staging.reordering import RowSorter, Spool
from beam_jobs.staging.units import (
    SIDECAR_FIELDS,
    Unit,
    UnitSummary,
    done_before,
    kept_column,
    unit_files,
    with_offsets,
)
from beam_jobs.workspace import write_marker
from foundation import storage
from shard_format import (
    Feature,
    InputError,
    encode_columns,
    file_sha256,
    frame_columns,
    id_hash,
    label_column,
    shuffle_keys,
)
from shard_format.kept_columns import index_values

# The record id breaks the tie of two equal keys, so the order never depends on the unit.
_SHUFFLE_ORDER = ("key", "record_id")
_READINGS = 3  # of a unit whose files change meanwhile


def stage_unit(unit: Unit, context: JobContext) -> UnitSummary:
    """Stages a unit, or finds that it was done before.

    Args:
        unit: Which rows of the listing.
        context: The job.

    Raises:
        InputError: A record is rejected and the job is to fail then.
    """
    workspace = context.workspace
    done = done_before(unit.key, workspace, context.options.replays)
    if done is not None:
        report(workspace.progress, "stage", unit.bytes)
        return done
    items = partial(read_unit, workspace.listing_of(unit.piece), unit)
    changed: set[bytes] = set()
    for tried in range(_READINGS):
        try:
            return _stage(unit, items, context, changed, is_last=tried == _READINGS - 1)
        except SourceChangedError:
            usable = (item for item in items() if not item.reason)
            changed |= {read_path(item) for item in usable if change_of(item)}
        except UnreadableError as error:
            return _unreadable(unit, items(), error)
    raise AssertionError("unreachable: the last reading rejects what has changed")


def _stage(
    unit: Unit,
    items: Callable[[], Iterator[SourceItem]],
    context: JobContext,
    changed: Collection[bytes],
    *,
    is_last: bool,
) -> UnitSummary:
    """Stages a unit without the files that have changed since they were listed.

    Args:
        unit: The unit.
        items: Gives its items, again and again.
        context: The job.
        changed: Paths of these files.
        is_last: Whether further ones are rejected at once, which holds the records of an item.

    Raises:
        SourceChangedError: A further file has changed, and some of its records were taken.
        UnreadableError: An I/O error.
    """
    workspace = context.workspace
    final = unit_files(workspace, unit.key)
    files = workspace.drafts(final)
    with (
        workspace.write(files["tfrecord"]) as payload,
        workspace.write_arrow(files["arrow"]) as sidecar,
        workspace.write_arrow(files["rejects"]) as sink,
        RejectWriter(sink) as rejects,
        closing(UnitAtWork(context, rejects)) as work,
    ):
        reports = SteadyReports(workspace.progress, "stage")
        source = (context.options, context.record_type.extractor, workspace.scratch_file())
        with CorpusReader(*source, changed=changed) as reader:
            checked = _with_checks(items(), each=is_last)
            for item, behind in storage.ahead(checked, lambda one: stored_range(one[0])):
                is_checked = behind is not None and read_path(behind) not in changed
                results = reader.read(item)
                if is_last and is_checked:
                    read = list(results)
                    results = iter([reader.changed(item)] if change_of(item) else read)
                for result in results:
                    work.add(result)
                if behind is not None and is_checked and not is_last and change_of(behind):
                    raise SourceChangedError
                reports.add(item.size)
            work.flush()
        reports.flush()
        work.write_in_shuffle_order(payload, sidecar)
        payload_bytes = payload.tell()
    summary = UnitSummary(
        key=unit.key,
        read=work.read,
        kept=work.kept,
        refused=dict(sorted(rejects.refused.items())),
        filtered=dict(sorted(rejects.filtered.items())),
        reused=False,
        ignored=rejects.ignored,
        noted=dict(sorted(work.noted.items())),
        sha256={suffix: file_sha256(files[suffix]) for suffix in ("arrow", "rejects")},
    )
    workspace.publish({files[suffix]: final[suffix] for suffix in ("tfrecord", *summary.sha256)})
    marker = {"summary": summary._asdict(), "payload_bytes": payload_bytes}
    if context.options.replays:
        marker["replays"] = context.options.replays
    write_marker(workspace, final["json"], marker)
    return summary


def _with_checks(
    items: Iterable[SourceItem], *, each: bool
) -> Iterator[tuple[SourceItem, SourceItem | None]]:
    """Each item, and one by which to look at its file behind it.

    Args:
        items: Those of a file are neighbors.
        each: Whether to look behind each item, else behind the last one of a file.
    """
    last: SourceItem | None = None
    usable: SourceItem | None = None  # of the file
    for item in items:
        if last is not None:
            ends = read_path(last) != read_path(item)
            yield last, usable if ends or each else None
            usable = None if ends or each else usable
        last, usable = item, usable if item.reason else item
    if last is not None:
        yield last, usable


def check_readable(summaries: Sequence[UnitSummary]) -> None:
    """Checks that every unit was staged.

    Raises:
        InputError: Files could not be read because of I/O errors.
    """
    failed = [summary for summary in summaries if summary.unreadable]
    if failed:
        files = sum(summary.unreadable for summary in failed)
        raise InputError(
            f"{files:,} source files cannot be read. The first error: {failed[0].error}. Nothing "
            "was committed, and what was staged is kept. Run the same command again when they can "
            "be read; it resumes. --on-unreadable quarantine goes on without them."
        )


def _unreadable(unit: Unit, items: Iterable[SourceItem], error: UnreadableError) -> UnitSummary:
    """Summary of a unit that is not staged because of an I/O error."""
    paths = {item.path for item in items if not item.reason and not item.replacement}
    files = sum(not is_readable(path) for path in paths)
    return UnitSummary(
        unit.key, 0, 0, {}, {}, reused=False, unreadable=max(1, files), error=str(error)
    )


def encode_frames(
    features: Sequence[Feature], values: Mapping[str, Any], records: int
) -> pa.LargeBinaryArray:
    """[records] large_binary: the frames of staged records."""
    return frame_columns(encode_columns(features, values, records))


class UnitAtWork:
    """The records of a unit on their way: waiting for a batch, spooled, or rejected.

    Attributes:
        read: Number of records so far, rejected ones included.
        noted: Numbers of staged records so far, see UnitSummary.
    """

    def __init__(self, context: JobContext, rejects: RejectWriter) -> None:
        options, record_type = context.options, context.record_type
        workspace = context.workspace
        self.read = 0
        self.noted: Counter[str] = Counter()
        self._options = options
        self._record_type = record_type
        self._rejects = rejects
        self._kept = kept_columns(options)
        kinds = {feature.name: feature.kind for feature in record_type.schema.features}
        self._indexed = {field.name: kinds[field.name] for field in record_type.kept_columns}
        self._is_annotated = not options.no_labels or splits_are_given(options.split)
        self._columns = record_type.staged_columns
        labels = (pa.field(label_column(name), pa.string()) for name in options.further_labels)
        kept = [field.with_name(kept_column(field.name)) for field in record_type.kept_columns]
        self._schema = pa.schema([*SIDECAR_FIELDS, *self._columns, *labels, *kept])
        self._consumed = {*record_type.consumed}
        self._consumed |= {one.name for one in options.consumed_columns.values()}
        names = [feature.name for feature in self._kept]
        self._id, self._license = (
            None if column is None else names.index(column)
            for column in (options.id_column, options.license_column)
        )
        required = options.require_license
        licenses = parse_names("--require-license", required) if required else ()
        self._licenses = {license_id(name) for name in licenses}
        # With their positions in the unit, and the ids that say where they are.
        self._waiting: list[tuple[int, str, RawRecord]] = []
        self._waiting_bytes = 0
        self._unreleased_bytes = 0  # of records since memory was released
        self._frames = Spool(workspace.scratch_file())
        self._rows = RowSorter(workspace.scratch_file(), self._schema, _SHUFFLE_ORDER)

    @property
    def kept(self) -> int:
        """Number of records that were staged so far."""
        return self._rows.count

    def add(self, result: ReadResult) -> None:
        """Takes one result of reading."""
        if isinstance(result, IgnoredPart):
            self._rejects.ignored += 1
            return
        position = self.read
        self.read += 1
        if isinstance(result, UnusableRecord):
            self._reject(position, result.record_id, result.label, result.rejection)
            return
        place = result.record_id
        try:
            if self._is_annotated:
                check_annotated(result.annotations, self._options)
            if self._kept:
                result = self._with_own_id(self._with_kept(result))
        except Rejection as rejection:
            rejected = rejection.at("prepare").with_data(result.original)
            self._reject(position, place, result.annotations.label, rejected)
            return
        self._waiting.append((position, place, result))
        self._waiting_bytes += result.size or len(result.original)
        full = self._waiting_bytes >= self._record_type.batch_bytes
        if full or len(self._waiting) == bounds.STAGED_RECORDS:
            self._unreleased_bytes += self._waiting_bytes
            self.flush()
            if self._unreleased_bytes >= bounds.STAGED_BYTES:
                release_memory()
                self._unreleased_bytes = 0

    def flush(self) -> None:
        """Prepares the records that wait, spools them, and keeps their rows of the sidecar."""
        if not self._waiting:
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        prepared = self._record_type.prepare_batch([record for _, _, record in waiting])
        for row, rejection in prepared.rejects:
            position, place, record = waiting[row]
            self._reject(position, place, record.annotations.label, rejection)
        records = [waiting[row][2] for row in prepared.rows.tolist()]
        if not records:
            return
        self.noted.update(prepared.noted)
        values, further = dict(prepared.values), dict[str, Any]()
        for number, feature in enumerate(self._kept):
            kept = [record.annotations.kept[number] for record in records]
            if feature.name in self._consumed:
                continue
            if feature.kind == "class_label":
                further[label_column(feature.name)] = kept
                continue
            values[feature.name] = kept
            if feature.kind == "text" and not feature.shape:
                self.noted[f"empty {feature.name}"] += kept.count("")
        for name, kind in self._indexed.items():
            further[kept_column(name)] = index_values(values[name], kind)
        frames = encode_frames(self._record_type.staged_features, values, len(records))
        begins = self._frames.append(frames)
        ids = [record.record_id for record in records]
        hashes = [id_hash(record_id) for record_id in ids]
        groups = [record.annotations.group for record in records]
        columns: dict[str, Any] = {
            "key": shuffle_keys(hashes, self._options.seed),
            "id_hash": pa.array(hashes, pa.uint64()),
            "offset": begins,  # in the spool, until the order is known
            "length": pc.binary_length(frames),
            "record_id": ids,
            "label": [record.annotations.label for record in records],
            "fingerprint": prepared.fingerprints,
            "group": [None if group is None else id_hash(group) for group in groups],
            "split": [record.annotations.split for record in records],
        }
        columns |= {field.name: prepared.statistics[field.name] for field in self._columns}
        self._rows.append(pa.table(columns | further, schema=self._schema))

    def write_in_shuffle_order(self, payload: BinaryIO, sidecar: pa.NativeFile) -> None:
        """Copies the spooled frames, and writes their rows, in shuffle order."""
        with pa.ipc.new_file(sidecar, self._schema) as writer:
            for rows in self._rows.in_order():
                writer.write_table(with_offsets(rows, payload.tell()))
                payload.writelines(self._frames.take(int64(rows["offset"]), int64(rows["length"])))

    def close(self) -> None:
        """Removes the files in which frames and rows waited."""
        self._frames.close()
        self._rows.close()

    def _with_kept(self, record: RawRecord) -> RawRecord:
        """The record; one of a format without columns with the values of an absent field.

        Raises:
            Rejection: A kept column is to hold numbers, or a label is missing.
        """
        values = record.annotations.kept or (None,) * len(self._kept)
        for feature, value in zip(self._kept, values, strict=True):
            if feature.kind == "class_label" and value is None:
                raise Rejection("no-label", f"it has no {feature.name!r}")
        if len(record.annotations.kept) == len(self._kept):
            return record
        empty = tuple(kept_value({}, feature, "a record without columns") for feature in self._kept)
        return record._replace(annotations=record.annotations._replace(kept=empty))

    def _with_own_id(self, record: RawRecord) -> RawRecord:
        """The record with its id of --id-column.

        A rejected one keeps the other, by which it is found in the corpus.

        Raises:
            Rejection: It has none, or its license is not one that is required.
        """
        kept = record.annotations.kept
        if self._license is not None:
            check_license(str(kept[self._license]), self._licenses)
        if self._id is None:
            return record
        own = str(kept[self._id])
        if not own.strip():
            raise Rejection("no-id", f"it has no {self._options.id_column!r}")
        prefix = self._options.id_prefix
        return record._replace(record_id=f"{prefix}/{own}" if prefix else own)

    def _reject(
        self, position: int, record_id: str, label: str | None, rejection: Rejection
    ) -> None:
        """Puts a record in the rejects of the unit.

        Raises:
            InputError: The job is to fail now.
        """
        if self._options.on_bad == "fail" and rejection.stage != FILTER:
            raise InputError(
                f"{record_id} is rejected as {rejection.reason}: {rejection.detail}. Correct or "
                "remove the file, or use --on-bad quarantine."
            )
        self._rejects.append(position, record_id, label, rejection)
