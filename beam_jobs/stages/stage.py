"""One unit from start to end."""

from __future__ import annotations

from beam_jobs.progress import report
from beam_jobs.record_types import BatchRecords, RecordType, SingleRecords
from beam_jobs.rejects import RejectWriter
from beam_jobs.sources import Source
from beam_jobs.stages.batched import stage_in_batches
from beam_jobs.stages.list import read_unit
from beam_jobs.stages.per_record import stage_one_by_one
from beam_jobs.staging.units import Sinks, Unit, UnitSummary, done_before, unit_files
from beam_jobs.workspace import Workspace, publish, write_json, write_table
from shard_format import file_sha256

_BLOCK_BYTES = 1 << 20  # 1 MiB a system call


def stage_unit(
    unit: Unit, source: Source, record_type: RecordType, workspace: Workspace
) -> UnitSummary:
    """Stages a unit, or finds that it was done before.

    Args:
        unit: Which rows of the listing.
        source: How a record is read.
        record_type: How a record is prepared.
        workspace: Where the listing is and where the unit goes.

    Raises:
        InputError: A record is refused and the job is to fail then.
    """
    done = done_before(unit, workspace)
    if done is not None:
        report(workspace.progress, "stage", unit.bytes if record_type.by_bytes else done.read)
        return done
    files = unit_files(workspace, unit.key)
    payload, refused = (workspace.temporary(workspace.units) for _ in range(2))
    items = list(read_unit(workspace.listing, unit))
    with (
        payload.open("wb", buffering=_BLOCK_BYTES) as file,
        RejectWriter(refused) as rejects,
    ):
        sinks = Sinks(source.options, workspace, file, rejects)
        if isinstance(record_type, BatchRecords):
            read, sidecar = stage_in_batches(items, source, record_type, sinks)
        elif isinstance(record_type, SingleRecords):
            read, sidecar = stage_one_by_one(items, source, record_type, sinks)
        else:
            raise TypeError(f"{type(record_type).__name__} says neither how it takes records")
    publish(payload, files["tfrecord"])
    publish(refused, files["rejects"])
    write_table(workspace, files["arrow"], sidecar)
    summary = UnitSummary(
        key=unit.key,
        read=read,
        kept=len(sidecar),
        refused=dict(sorted(rejects.refused.items())),
        filtered=dict(sorted(rejects.filtered.items())),
        reused=False,
        ignored=rejects.ignored,
    )
    write_json(
        workspace,
        files["json"],
        {
            "summary": summary._asdict(),
            "payload_bytes": files["tfrecord"].stat().st_size,
            "sha256": {suffix: file_sha256(files[suffix]) for suffix in ("arrow", "rejects")},
        },
    )
    return summary
