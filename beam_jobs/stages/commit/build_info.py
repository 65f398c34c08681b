"""build.json: everything about a build that is not reproducible, with its notes and warnings.

Warnings are of facts that make a set unfit, most likely.
"""

from __future__ import annotations

import dataclasses
import itertools
import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psutil

from beam_jobs.corpus.sniffing import has_known_ending
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_kept
from beam_jobs.package_versions import package_version
from beam_jobs.stages.list import Listing
from beam_jobs.stages.plan import Plan
from beam_jobs.staging import UnitSummary
from beam_jobs.workspace import Workspace
from foundation.options import flag_of
from foundation.wording import counted
from shard_format import Manifest, naming
from shard_format.checksums import build_text, whole_build
from shard_format.expected_files import FINGERPRINTS_KEY
from shard_format.papers import PAPERS_KEY, joined_papers, papers_of, papers_text, parse_papers

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
    before = whole_build(workspace.out)  # of the same build, a file of which was lost
    is_same = before.get("build_id") == listing.build_id
    papers = joined_papers(papers_of(before if is_same else {}), parse_papers(options.papers))
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
        "options": dataclasses.asdict(options) | {PAPERS_KEY: papers_text(papers)},
        "notes": [*options.notes, *plan.notes],
        "warnings": plan.warnings,
        "left_out": plan.left_out,
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


_EMPTY = "empty "  # in the notes of a unit, before the name of a column
_MOST_NAMED = 3
_RARE = 0.1  # the most that endings of no known format may be of all files


def staging_notes(
    summaries: Sequence[UnitSummary], listing: Listing, context: JobContext
) -> list[str]:
    """Notes for the user: files left out, kept columns that some records lack, and further ones."""
    options = context.options
    noted, staged = _noted(summaries)
    empty = [
        f"--keep-columns {name}: {count:,} of {staged:,} records have no value, and store an empty "
        "text"
        for name in [one.name for one in parse_kept(options.keep_columns)]
        if 0 < (count := noted[_EMPTY + name]) < staged
    ]
    flags = [flag_of(name) for name in ("include", "exclude") if getattr(options, name)]
    left_out = f"{' and '.join(flags)} left out {counted(listing.unselected, 'file')}"
    unselected = [left_out] if listing.unselected else []
    return [*unselected, *empty, *context.record_type.notes(noted, staged)]


def _noted(summaries: Sequence[UnitSummary]) -> tuple[Counter[str], int]:
    """Returns the numbers of staged records by what they have, and of all of them."""
    noted = Counter[str]()
    for summary in summaries:
        noted.update(summary.noted)
    return noted, sum(summary.kept for summary in summaries)


def corpus_warnings(summaries: Sequence[UnitSummary], listing: Listing) -> list[str]:
    """What a build knows of its corpus.

    Args:
        summaries: All units.
        listing: Listing of the corpus.
    """
    return [*_empty_columns(summaries), *_rare_endings(listing.endings)]


def _empty_columns(summaries: Sequence[UnitSummary]) -> Iterator[str]:
    counts, records = _noted(summaries)
    empty = [
        key.removeprefix(_EMPTY)
        for key in sorted(counts)
        if key.startswith(_EMPTY) and 0 < counts[key] == records
    ]
    if empty:
        yield (
            f"--keep-columns {','.join(empty)}: empty in each of {counted(records, 'record')}. "
            "Correct the name, or leave it out."
        )


def _rare_endings(counts: Mapping[str, int]) -> Iterator[str]:
    """Of files whose names are of no format, which are taken because they are text."""
    strange = {
        ending: count
        for ending, count in Counter(counts).most_common()
        if ending.startswith(".") and not has_known_ending(ending)
    }
    files, rare = sum(strange.values()), sum(counts.values()) * _RARE
    if strange and files <= rare:
        shown = ", ".join(f"{count:,} {end}" for end, count in [*strange.items()][:_MOST_NAMED])
        more = ", ..." if len(strange) > _MOST_NAMED else ""
        yield (
            f"{files:,} of {counted(sum(counts.values()), 'file')} have endings that are rare here "
            f"and of no format of documents ({shown}{more}); they were read as plain text. Leave "
            f"them out with --exclude '*{next(iter(strange))}' if they do not belong to it."
        )
