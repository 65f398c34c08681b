"""build.json: everything about a build that is not reproducible."""

from __future__ import annotations

import dataclasses
import itertools
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from beam_jobs.options import PreprocessOptions
from beam_jobs.package_versions import package_version
from beam_jobs.stages.list import Listing
from beam_jobs.stages.plan import Plan
from beam_jobs.staging import UnitSummary
from beam_jobs.workspace import Workspace
from shard_format import Manifest, naming
from shard_format.checksums import build_text
from shard_format.expected_files import FINGERPRINTS_KEY

_LEAST_SECONDS = 1e-3
_PACKAGES = (
    *("apache-beam", "numpy", "opencv-python-headless", "pillow", "pyarrow", "sentencepiece"),
    *("simplejpeg", "tokenizers"),
)


def write_build_info(
    workspace: Workspace,
    listing: Listing,
    started: float,
    plan: Plan,
    summaries: Sequence[UnitSummary],
    options: PreprocessOptions,
    manifest: Manifest,
    fingerprints: Mapping[str, Any],
) -> None:
    """Writes build.json.

    Args:
        workspace: The build.
        listing: Listing of the corpus.
        started: When the build began, in seconds since the epoch.
        plan: The plan, with its notes and warnings.
        summaries: All units.
        options: The job, stored so that it can be replayed with other files or options.
        manifest: The manifest that will be written.
        fingerprints: Bytes and SHA-256 by name of the files that no manifest names.
    """
    seconds = max(time.time() - started, _LEAST_SECONDS)  # clocks may be set back meanwhile
    value = {
        "build_id": listing.build_id,
        "inputs": listing.inputs,  # for the next build, to say what differs
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(seconds, 3),
        # Of the units that this run prepared; reused units took no time.
        "records_per_second": round(
            sum(summary.read for summary in summaries if not summary.reused) / seconds, 1
        ),
        "units": len(summaries),
        "units_reused": sum(summary.reused for summary in summaries),
        # Entries that are not records, such as requests in WARC files.
        "ignored": sum(summary.ignored for summary in summaries),
        "options": dataclasses.asdict(options),
        "notes": [*options.notes, *plan.notes],
        "warnings": plan.warnings,
        "stages": _stages(workspace, started, plan, summaries),
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "packages": {
            name: package_version(name) or "not installed as a package"
            for name in ("shardmill", *_PACKAGES)
        },
        FINGERPRINTS_KEY: fingerprints,
    }
    with workspace.write(workspace.out / naming.BUILD, durable=True) as file:
        file.write(build_text(value, manifest))


def _stages(
    workspace: Workspace, started: float, plan: Plan, summaries: Sequence[UnitSummary]
) -> list[dict[str, Any]]:
    """The duration of each stage, and its number of records."""
    read = sum(summary.read for summary in summaries)
    staged = sum(summary.kept for summary in summaries)
    written = staged - plan.excluded - plan.duplicates - sum(plan.filtered.values()) + plan.repeated
    records = {"list": read, "stage": read, "plan": staged}
    records |= {"merge": written, "shard": written, "commit": written}
    begins = {"list": started, **workspace.marks(), "end": time.time()}
    times = [begins[name] for name in (*records, "end") if name in begins]
    names = [name for name in records if name in begins]
    return [
        {"name": name, "seconds": round(max(end - begin, 0), 3), "records": records[name]}
        for name, (begin, end) in zip(names, itertools.pairwise(times), strict=True)
    ]
