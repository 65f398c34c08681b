"""Preprocessing jobs on Apache Beam: raw corpora in, shard sets out.

    from beam_jobs import ImageOptions, preprocess

    report = preprocess(ImageOptions(("photos",), "set", resize="crop:224x224"))
    report.manifest.ledger.kept, report.manifest.root_hash

Beam moves references, Arrow moves metadata, files move payload. The five stages, one module each:

    list        sources -> work units
    stage       a unit  -> key-sorted payload, Arrow sidecar, rejected records
    plan        sidecars -> duplicates, splits, shard boundaries: one recipe per shard
    shard       a recipe -> a shard
    commit      everything -> index, metadata, manifest

`pipeline` connects them, and `run` launches it, in threads of this process or on an engine of Beam.
Importing this package is cheap: Beam (seconds) is loaded by the first use of what needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from beam_jobs.dry_run import DryRun as DryRun
    from beam_jobs.dry_run import dry_run as dry_run
    from beam_jobs.generations.append import append as append
    from beam_jobs.options import ImageOptions as ImageOptions
    from beam_jobs.options import RecordOptions as RecordOptions
    from beam_jobs.options import TextOptions as TextOptions
    from beam_jobs.run import BuildReport as BuildReport
    from beam_jobs.run import preprocess as preprocess
    from beam_jobs.transform import BuildShardSet as BuildShardSet

# name -> the module it is imported from when it is first used; see `lazy_names`.
_HOMES = {
    "BuildReport": "beam_jobs.run",
    "BuildShardSet": "beam_jobs.transform",
    "DryRun": "beam_jobs.dry_run",
    "ImageOptions": "beam_jobs.options",
    "RecordOptions": "beam_jobs.options",
    "TextOptions": "beam_jobs.options",
    "append": "beam_jobs.generations.append",
    "dry_run": "beam_jobs.dry_run",
    "preprocess": "beam_jobs.run",
}

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # else type checkers would let any name pass
    __getattr__, __dir__ = _lazy_names(__name__, _HOMES)
