"""The end of a build: `python -m benchmarks.committing [--shards 7450,745058,7450580]`.

A job of one part of an index is done for real, so that the worker's time for a record is known. For
each size the notes of that part are then there as often as the set has parts, with as many units as
such a corpus has, and two steps are measured, each in a process of its own: which parts there are,
and the commit. The shards themselves are not there: the commit opens none. A list of items is made
of pieces that were listed. docs/make_scale.py takes the results.
"""

from __future__ import annotations

import dataclasses
import functools
import resource
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.build import begin, open_job
from beam_jobs.job_context import JobContext
from beam_jobs.memory import release_memory
from beam_jobs.options import ImageOptions
from beam_jobs.stages.commit import commit
from beam_jobs.stages.commit.index import IndexResult, IndexTask, index_tasks, write_index_part
from beam_jobs.stages.commit.shard_set import WrittenParts
from beam_jobs.stages.plan import load_plan, plan_shards
from beam_jobs.stages.plan.merge_levels import SHARD_BYTES, usual_work
from beam_jobs.stages.plan.plan import store_plan
from beam_jobs.stages.shard import ShardDone, write_shard
from beam_jobs.stages.stage import stage_unit
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.item_list import finish_sending, send_hashes, write_item_list, write_items
from beam_jobs.staging.units import UNIT_SCHEMA, Unit, read_units
from beam_jobs.workspace import Workspace, read_json, write_json, write_marker, write_table
from benchmarks.measure import parser, write
from benchmarks.opening import make_images
from shard_format import naming
from shard_format.fingerprint_files import item_parts
from shard_format.index_parts import PART_ROWS

_RECORDS = 1342  # of a shard: images of 100 kB fill 128 MiB
_PER_PART = PART_ROWS // _RECORDS
_PIECES = 40


def main() -> None:
    """Measures each size, writes the results."""
    options = parser("committing", __doc__, turns=False)
    options.add_argument("--shards", default="7450,745058,7450580", help="shards of each set")
    arguments = options.parse_args()
    sizes = []
    for size in arguments.shards.split(","):
        job = _Job(arguments.work / "committing", int(size))
        shutil.rmtree(job.work, ignore_errors=True)
        made = _measured(job.make)
        planned, committed = _measured(job.plan_parts), _measured(job.commit)
        sizes.append(
            {
                "shards": job.shards,
                "records": job.shards * _RECORDS,
                "parts": job.parts,
                "part_seconds": round(made["value"], 2),
                "plan_seconds": planned["seconds"],
                "plan_peak_mib": planned["peak_mib"],
                "commit_seconds": committed["seconds"],
                "commit_peak_mib": committed["peak_mib"],
                "manifest_bytes": (job.out / naming.MANIFEST).stat().st_size,
            }
        )
        print(sizes[-1], flush=True)
    rows = _PER_PART * _RECORDS
    small, large = sizes[0], sizes[-1]
    shards = large["shards"] - small["shards"]
    spent = sum(large[name] - small[name] for name in ("plan_seconds", "commit_seconds"))
    more_mib = (large["commit_peak_mib"] - small["commit_peak_mib"]) / shards
    write(
        "committing",
        {
            "sizes": sizes,
            "row_microseconds": round(1e6 * large["part_seconds"] / rows, 2),
            "shard_microseconds": round(1e6 * spent / shards, 1),
            "shard_bytes": round(more_mib * 2**20),
            "commit_base_mib": round(small["commit_peak_mib"] - small["shards"] * more_mib),
            "items": _items(arguments.work / "items"),
        },
    )


def _items(folder: Path) -> dict[str, Any]:
    """What a list of items takes, from the pieces of a listing to its parts."""
    shutil.rmtree(folder, ignore_errors=True)
    workspace = Workspace(folder, None)
    workspace.create()
    workspace.pieces.mkdir()
    units = [Unit(f"{piece:032x}", 0, 1, 1, piece=piece)._asdict() for piece in range(_PIECES)]
    write_table(workspace, workspace.unit_table, pa.Table.from_pylist(units, UNIT_SCHEMA))
    draw = np.random.default_rng(1)
    for piece in range(_PIECES):
        hashes = draw.integers(0, 2**64, bounds.LISTED_FILES, np.uint64)
        name = f"items-{piece:05d}.arrow" if piece else "items.arrow"
        write_items(workspace, workspace.work / name, hashes)
    done = _measured(functools.partial(_make_list, folder))
    items = _PIECES * bounds.LISTED_FILES
    return {
        "items": items,
        "parts": item_parts(items),
        "microseconds": round(1e6 * done["value"] / items, 2),
        "peak_mib": done["peak_mib"],
    }


def _make_list(folder: Path) -> float:
    """Sends the hashes of all pieces, and writes all parts; the seconds."""
    workspace, parts = Workspace(folder, None), item_parts(_PIECES * bounds.LISTED_FILES)
    begun = time.perf_counter()
    finish_sending(workspace, [send_hashes(workspace, one, parts) for one in range(_PIECES)])
    write_item_list(workspace, folder)
    return time.perf_counter() - begun


def _measured(work: Callable[[], Any]) -> dict[str, Any]:
    """Seconds, memory and result of work in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as one:
        return one.submit(_timed, work).result()


def _timed(work: Callable[[], Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    value = work()
    seconds = round(time.perf_counter() - begun, 2)
    release_memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"value": value, "seconds": seconds, "peak_mib": peak}


@dataclasses.dataclass(frozen=True)
class _Job:
    """A job whose shards are written, as far as the end of a build can tell.

    Attributes:
        work: Folder of the corpus and the set.
        shards: Number of shards.
    """

    work: Path
    shards: int

    @property
    def out(self) -> Path:
        """The set."""
        return self.work / "set"

    @property
    def parts(self) -> int:
        """Number of parts of the index."""
        return -(-self.shards // _PER_PART)

    def _open(self) -> JobContext:
        values: dict[str, Any] = {"split": "train=1", "resize": "none", "num_shards": 1}
        return open_job(ImageOptions((str(self.work / "images"),), str(self.out), **values))

    def make(self) -> float:
        """Builds a shard, and from it what the workers leave; the seconds of a part."""
        make_images(self.work / "images", _RECORDS)
        context = self._open()
        workspace = context.workspace
        begin(context)
        summaries = [stage_unit(unit, context) for unit in read_units(workspace)]
        (spec,) = plan_shards(summaries, context)
        shard = write_shard(spec, context)
        plan = load_plan(workspace)
        store_plan(workspace, plan._replace(num_shards={"train": self.shards}))
        marker = read_json(workspace.shards / f"{shard.info.file}.json")["value"]
        for number in range(_PER_PART):
            name = naming.shard_file(context.options.name, "train", number, self.shards)
            said = {**marker, "info": {**marker["info"], "file": name}}
            write_marker(workspace, workspace.shards / f"{name}.json", said)
            (workspace.shards / f"{name}.arrow").hardlink_to(
                workspace.shards / f"{shard.info.file}.arrow"
            )
        rows = _PER_PART * _RECORDS
        file = naming.index_part_file("train", 0)
        begun = time.perf_counter()
        task = IndexTask("train", file, 0, _PER_PART, self.shards, rows)
        result = write_index_part(task, context)
        seconds = time.perf_counter() - begun
        for number in range(1, self.parts):
            part = naming.index_part_file("train", number)
            for source in (self.out / file, workspace.shards / f"{Path(file).name}.notes"):
                target = source.with_name(source.name.replace(Path(file).name, Path(part).name))
                target.hardlink_to(source)
        write_json(workspace, workspace.work / "result.json", result)
        return seconds

    def plan_parts(self) -> int:
        """Decides which parts there are."""
        done = [ShardDone("train", shard, _RECORDS).pack() for shard in range(self.shards)]
        return len(index_tasks(done, self._open()))

    def commit(self) -> None:
        """Commits as many parts as the set has."""
        context = self._open()
        written = IndexResult(*read_json(context.workspace.work / "result.json"))
        results = [
            written._replace(file=naming.index_part_file("train", number))
            for number in range(self.parts)
        ]
        records = self.parts * _PER_PART * _RECORDS
        units = usual_work(self.shards * SHARD_BYTES).units
        own = -(-records // units)
        counts = [min(own, records - own * unit) for unit in range(units)]
        summaries = [
            UnitSummary(f"{unit:032x}", own, own, {}, {}, False, sha256={"arrow": "0" * 64})
            for unit, own in enumerate(counts)
            if own > 0
        ]
        build = begin(context)
        commit(summaries, WrittenParts(results, []), build.listing, time.time(), context)


if __name__ == "__main__":
    main()
