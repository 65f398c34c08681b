"""Stage 5, commit: index, quarantine, metadata, and last of all the manifest.

Until manifest.json has its name there is no data set; a build that is killed here runs the commit
again and writes the same bytes.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.listing import read_units
from beam_jobs.options import PreprocessOptions
from beam_jobs.planning import Plan, load_plan
from beam_jobs.record_types import RecordType
from beam_jobs.rejects import REJECT_SCHEMA
from beam_jobs.sharding import ShardResult, index_part
from beam_jobs.staging import UnitSummary, unit_files
from beam_jobs.storage import Workspace, flush_folder, publish, read_table, write_json
from shard_format import IndexWriter, Ledger, Manifest, SplitInfo, file_sha256, naming, open_index
from shard_format.tfds_metadata import dataset_info_text, features_text, label_files

_QUARANTINE_PART_BYTES = 64 << 20  # 64 MiB of refused originals a file
_QUARANTINE_GROUP_BYTES = 4 << 20  # 4 MiB a row group: what is held in memory
# What the set keeps of a reject: where it stood in its unit is of no use to anybody.
QUARANTINE_SCHEMA = REJECT_SCHEMA.remove(REJECT_SCHEMA.get_field_index("position"))
# Pictures are compressed already, and no two of them are equal.
_QUARANTINE_WRITING: dict[str, Any] = {
    "use_dictionary": ["label", "stage", "reason"],
    "compression": {
        name: "none" if name == "bytes" else "snappy" for name in QUARANTINE_SCHEMA.names
    },
}
_PACKAGES = ("apache-beam", "numpy", "opencv-python-headless", "pillow", "pyarrow", "simplejpeg")


def commit(
    summaries: Sequence[UnitSummary],
    results: Sequence[ShardResult],
    build_id: str,
    started: float,
    options: PreprocessOptions,
    record_type: RecordType,
    workspace: Workspace,
) -> Manifest:
    """Turns finished shards into a shard set.

    Args:
        summaries: Of all units.
        results: Of all shards.
        build_id: Content address of input and options, by which the same command is known again.
        started: When the build began, in seconds since the epoch.
        options: The job.
        record_type: Its record type.
        workspace: Where everything lies.
    """
    plan = load_plan(workspace)
    schema = record_type.schema.with_class_names("label", tuple(plan.class_names))
    splits = {name: _split(name, plan, results, record_type, workspace) for name in plan.num_shards}
    texts = {
        naming.FEATURES: features_text(schema),
        naming.DATASET_INFO: dataset_info_text(options.name, schema, splits),
        **label_files(schema),
    }
    for name, text in texts.items():
        _write_text(workspace, name, text)
    files = [*texts, *(naming.index_file(split) for split in splits)]
    files += _write_quarantine(workspace)
    for result in results:
        waiting = workspace.shards / result.info.file
        if waiting.exists():
            publish(waiting, workspace.out / result.info.file)
    manifest = Manifest(
        name=options.name,
        schema=schema,
        splits=splits,
        ledger=_ledger(summaries, plan),
        config=options.config(),
        files={name: _file_info(workspace.out / name) for name in files},
    )
    _remove_strangers(workspace, manifest)
    # A manifest that survives a power cut must not name files that do not.
    for folder in {(workspace.out / name).parent for name in files} | {workspace.out}:
        flush_folder(folder)
    _write_build_info(workspace, build_id, started, plan.notes, summaries)
    _write_text(workspace, naming.MANIFEST, manifest.to_text())
    flush_folder(workspace.out)
    return manifest


def _write_build_info(
    workspace: Workspace,
    build_id: str,
    started: float,
    notes: Sequence[str],
    summaries: Sequence[UnitSummary],
) -> None:
    """Writes build.json: everything about a build that is not the same the next time."""
    seconds = time.time() - started
    value = {
        "build_id": build_id,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(seconds, 3),
        # Those that this run prepared; reused units took no time.
        "records_per_second": round(
            sum(summary.read for summary in summaries if not summary.reused) / seconds, 1
        ),
        "units": len(summaries),
        "units_reused": sum(summary.reused for summary in summaries),
        "notes": list(notes),
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "packages": {name: _version(name) for name in ("shardmill", *_PACKAGES)},
    }
    write_json(workspace, workspace.out / naming.BUILD, value)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _ledger(summaries: Sequence[UnitSummary], plan: Plan) -> Ledger:
    reasons: Counter[str] = Counter()
    for summary in summaries:
        reasons.update(summary.refused)
        reasons.update(summary.filtered)
    staged = sum(summary.kept for summary in summaries)
    return Ledger(
        read=sum(summary.read for summary in summaries),
        kept=staged - plan.duplicates,
        duplicates=plan.duplicates,
        filtered=sum(sum(summary.filtered.values()) for summary in summaries),
        quarantined=sum(sum(summary.refused.values()) for summary in summaries),
        reasons=dict(sorted(reasons.items())),
    )


def _split(
    split: str,
    plan: Plan,
    results: Sequence[ShardResult],
    record_type: RecordType,
    workspace: Workspace,
) -> SplitInfo:
    """Joins the index of one split and counts over it."""
    own = sorted((r for r in results if r.split == split), key=lambda result: result.shard)
    temporary = workspace.temporary(workspace.out)
    with IndexWriter(temporary, record_type.statistics) as writer:
        for result in own:
            writer.append(read_table(index_part(workspace, result.info.file)))
    final = workspace.out / naming.index_file(split)
    final.parent.mkdir(exist_ok=True)
    publish(temporary, final, durable=True)
    return SplitInfo(
        shards=tuple(result.info for result in own),
        statistics=_statistics(open_index(final), plan.class_names, record_type),
    )


def _statistics(index: pa.Table, class_names: list[str], record_type: RecordType) -> dict[str, Any]:
    """Class counts, and least, mean and greatest of every numeric column."""
    counted = pc.value_counts(index["label"]).to_pylist()
    counts = {item["values"]: item["counts"] for item in counted}
    statistics: dict[str, Any] = {
        "class_counts": {name: counts.get(number, 0) for number, name in enumerate(class_names)}
    }
    for field in record_type.statistics:
        if pa.types.is_integer(field.type) and len(index):
            bounds = pc.min_max(index[field.name]).as_py()
            total = pc.sum(index[field.name]).as_py()  # integers: no rounding, in any order
            statistics[field.name] = {**bounds, "mean": total / len(index)}
    return statistics


def _write_quarantine(workspace: Workspace) -> list[str]:
    """Every refused record with its bytes, in listing order, whatever the units were."""
    folder = workspace.out / naming.QUARANTINE_DIR
    shutil.rmtree(folder, ignore_errors=True)
    written: list[str] = []
    with _memory_given_back():
        rows = _rejects(workspace)
        waiting = next(rows, None)
        while waiting is not None:
            folder.mkdir(exist_ok=True)
            name = naming.quarantine_file(len(written))
            temporary = workspace.temporary(folder)
            waiting = _write_quarantine_part(temporary, waiting, rows)
            publish(temporary, workspace.out / name, durable=True)
            written.append(name)
    return written


def _write_quarantine_part(
    path: Path, row: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> pa.RecordBatch | None:
    """Writes rows, the one given first, until the part is full; the first row of the next."""
    part_bytes = 0
    with pq.ParquetWriter(path, QUARANTINE_SCHEMA, **_QUARANTINE_WRITING) as writer:
        while row is not None and part_bytes < _QUARANTINE_PART_BYTES:
            group: list[pa.RecordBatch] = []
            group_bytes = 0
            while row is not None and group_bytes < _QUARANTINE_GROUP_BYTES:
                group.append(row)
                group_bytes += row.nbytes
                row = next(rows, None) if group_bytes < _QUARANTINE_GROUP_BYTES else None
            writer.write_table(pa.Table.from_batches(group, QUARANTINE_SCHEMA))
            part_bytes += group_bytes
            group.clear()  # let go of them before the next one is read
            row = next(rows, None)
    return row


@contextlib.contextmanager
def _memory_given_back() -> Iterator[None]:
    """Has Arrow allocate with malloc, which returns large blocks to the system at once.

    Its own allocator does when it finds time to: the peak was 600 MiB in one run and 790 in the
    next. The writer of Parquet takes no allocator of its own, so it is set for all.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _rejects(workspace: Workspace) -> Iterator[pa.RecordBatch]:
    """Refused records one at a time."""
    for unit in read_units(workspace):
        path = str(unit_files(workspace, unit.key)["rejects"])
        # One row a batch, in the order of staging; "position" gives the order of the listing.
        # That column is looked up in a memory map, originals are read one at a time: mapped, they
        # would all stay resident.
        mapped = pa.ipc.open_file(pa.memory_map(path))
        numbers = range(mapped.num_record_batches)
        positions = [mapped.get_batch(number)["position"][0].as_py() for number in numbers]
        with pa.OSFile(path) as source:
            file = pa.ipc.open_file(source)
            for number in sorted(numbers, key=positions.__getitem__):
                yield file.get_batch(number).select(QUARANTINE_SCHEMA.names)


def _write_text(workspace: Workspace, name: str, text: str) -> None:
    temporary = workspace.temporary(workspace.out)
    temporary.write_text(text, encoding="utf-8")
    publish(temporary, workspace.out / name, durable=True)


def _file_info(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def _remove_strangers(workspace: Workspace, manifest: Manifest) -> None:
    """Removes what an unfinished build with other options left under our names."""
    known = {shard.file for split in manifest.splits.values() for shard in split.shards}
    known |= set(manifest.files)
    ours = [path for path in workspace.out.iterdir() if naming.parse_shard_file(path.name)]
    ours += workspace.out.glob(f"{naming.INDEX_DIR}/*")
    for path in ours:
        if path.relative_to(workspace.out).as_posix() not in known:
            path.unlink()
