"""Stage 5, commit: index, quarantine, metadata, and last of all the manifest.

Until manifest.json has its name there is no data set; a build that is killed here runs the commit
again and writes the same bytes.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beam_jobs.counters import sum_counters
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import report
from beam_jobs.record_types import RecordType
from beam_jobs.stages.commit.build_info import write_build_info
from beam_jobs.stages.commit.evidence import write_evidence
from beam_jobs.stages.commit.quarantine import write_quarantine
from beam_jobs.stages.commit.statistics import split_statistics
from beam_jobs.stages.labels import label_feature
from beam_jobs.stages.plan import Plan, load_plan
from beam_jobs.stages.shard import ShardResult, counters_part, index_part
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, flush_folder, publish, read_table
from shard_format import IndexWriter, Ledger, Manifest, SplitInfo, file_sha256, naming, open_index
from shard_format.tfds_metadata import dataset_info_text, features_text, label_files


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
    workspace.mark("commit")
    plan = load_plan(workspace)
    to_index = sum(result.info.records for result in results)
    left_out = sum(summary.read - summary.kept for summary in summaries)
    report(workspace.progress, "commit", total=to_index + left_out)
    schema = record_type.schema
    if label_feature(schema) is not None:
        schema = schema.with_class_names("label", tuple(plan.class_names))
    splits = {name: _split(name, plan, results, record_type, workspace) for name in plan.num_shards}
    texts = {
        naming.FEATURES: features_text(schema),
        naming.DATASET_INFO: dataset_info_text(options.name, schema, splits),
        **label_files(schema),
    }
    for name, text in texts.items():
        _write_text(workspace, name, text)
    given = record_type.files(workspace)
    for name, path in given.items():
        _copy(workspace, path, name)
    files = [*texts, *given, *(naming.index_file(split) for split in splits)]
    sidecars = Sidecars(workspace, summaries)
    files += write_evidence(workspace, sidecars, record_type, list(plan.num_shards))
    files += write_quarantine(workspace)
    for result in results:
        waiting = workspace.shards / result.info.file
        if waiting.exists():
            publish(waiting, workspace.out / result.info.file)
    manifest = Manifest(
        name=options.name,
        schema=schema,
        splits=splits,
        ledger=_ledger(summaries, plan),
        config=options.config() | record_type.config() | plan.settled,
        files={name: _file_info(workspace.out / name) for name in files},
    )
    _remove_strangers(workspace, manifest)
    # A manifest that survives a power cut must not name files that do not.
    for folder in {(workspace.out / name).parent for name in files} | {workspace.out}:
        flush_folder(folder)
    write_build_info(workspace, build_id, started, plan, summaries, options)
    _write_text(workspace, naming.MANIFEST, manifest.to_text())
    flush_folder(workspace.out)
    return manifest


def _ledger(summaries: Sequence[UnitSummary], plan: Plan) -> Ledger:
    reasons: Counter[str] = Counter()
    for summary in summaries:
        reasons.update(summary.refused)
        reasons.update(summary.filtered)
    reasons.update(plan.filtered)
    staged = sum(summary.kept for summary in summaries)
    by_plan = sum(plan.filtered.values())
    return Ledger(
        read=sum(summary.read for summary in summaries),
        kept=staged - plan.duplicates - by_plan,
        duplicates=plan.duplicates,
        filtered=by_plan + sum(sum(summary.filtered.values()) for summary in summaries),
        quarantined=sum(sum(summary.refused.values()) for summary in summaries),
        reasons=dict(sorted(reasons.items())),
        repeated=plan.repeated,
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
    with IndexWriter(temporary, record_type.index_columns) as writer:
        for result in own:
            writer.append(read_table(index_part(workspace, result.info.file)))
            report(workspace.progress, "commit", result.info.records)
    final = workspace.out / naming.index_file(split)
    final.parent.mkdir(exist_ok=True)
    publish(temporary, final, durable=True)
    parts = (counters_part(workspace, result.info.file) for result in own)
    training = split == plan.training
    counters = sum_counters(read_table(path) for path in parts if training and path.exists())
    return SplitInfo(
        shards=tuple(result.info for result in own),
        statistics=split_statistics(
            open_index(final), counters, plan.class_names, record_type, training=training
        ),
    )


def _write_text(workspace: Workspace, name: str, text: str) -> None:
    temporary = workspace.temporary(workspace.out)
    temporary.write_text(text, encoding="utf-8")
    publish(temporary, workspace.out / name, durable=True)


def _copy(workspace: Workspace, source: Path, name: str) -> None:
    temporary = workspace.temporary(workspace.out)
    shutil.copyfile(source, temporary)
    publish(temporary, workspace.out / name, durable=True)


def _file_info(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def _remove_strangers(workspace: Workspace, manifest: Manifest) -> None:
    """Removes what an unfinished build with other options left under our names."""
    known = {shard.file for split in manifest.splits.values() for shard in split.shards}
    known |= set(manifest.files)
    ours = [path for path in workspace.out.iterdir() if naming.parse_shard_file(path.name)]
    ours += workspace.out.glob(f"{naming.INDEX_DIR}/*")
    ours += [workspace.out / name for name in (naming.DUPLICATES, *naming.TOKENIZERS.values())]
    for path in ours:
        if path.relative_to(workspace.out).as_posix() not in known:
            path.unlink(missing_ok=True)
