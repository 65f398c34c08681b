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

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beam_jobs.dry_run import DryRun as DryRun
    from beam_jobs.dry_run import dry_run as dry_run
    from beam_jobs.generations.append import append as append
    from beam_jobs.options import ImageOptions as ImageOptions
    from beam_jobs.options import TextOptions as TextOptions
    from beam_jobs.run import BuildReport as BuildReport
    from beam_jobs.run import preprocess as preprocess
    from beam_jobs.transform import BuildShardSet as BuildShardSet

# name -> the module it is imported from when it is first used.
_HOMES = {
    "BuildReport": "beam_jobs.run",
    "BuildShardSet": "beam_jobs.transform",
    "DryRun": "beam_jobs.dry_run",
    "ImageOptions": "beam_jobs.options",
    "TextOptions": "beam_jobs.options",
    "append": "beam_jobs.generations.append",
    "dry_run": "beam_jobs.dry_run",
    "preprocess": "beam_jobs.run",
}

__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # else type checkers would let any name pass

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from shard_format.extras import naming_extras

        with naming_extras():
            value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
