"""What docs/scale.md says that a large job asks of a storage, counted on a server."""

from __future__ import annotations

import json
import random
import runpy
from typing import NamedTuple

import pytest

from beam_jobs.build import begin, locked_output, open_job
from beam_jobs.engine.local import run_here
from beam_jobs.options import TextOptions
from beam_jobs.pipeline import merging_of, steps
from beam_jobs.stages.plan import list_duplicates, load_merge_plan, merge_levels
from beam_jobs.stages.plan import plan as planning
from beam_jobs.stages.plan.merge_levels import Level, MergeWork, Merging
from beam_jobs.stages.plan.merge_plan import MergePlan
from beam_jobs.stages.plan.spread import round_names
from beam_jobs.stages.plan.spread import shards as spread_shards
from foundation import storage
from foundation.storage import place_of
from shard_format import load_manifest
from tests.servers.proxy import proxy
from tests.servers.test_builds import connected
from tests.servers.versitygw import versitygw

pytestmark = pytest.mark.engine

FAN_IN, NUM_SHARDS = 12, 20
READS = {"get", "range", "head"}
WRITES = {"put", "create", "begin", "part", "complete", "list"}  # a page costs as much as a write
# Steps of the pipeline by the stage of the page, but for those of planning.
STAGES = {
    "stage": ("ListUnits", "StageUnits"),
    "merge 1": ("PlanMerge1", "Merge1"),
    "merge 2": ("PlanMerge2", "Merge2"),
    "shard": ("PlanMergedShards", "WriteShards"),
    "parts": ("PlanParts", "WriteParts"),
}


class Counted(NamedTuple):
    """What steps asked of the server."""

    reads: int
    writes: int
    sent: int


class CountedJob(NamedTuple):
    """What was counted, and how large the job was."""

    stages: dict[str, Counted]
    files: int
    work: MergeWork
    merging: Merging
    plan: MergePlan


@pytest.fixture
def lowered(monkeypatch):
    """Small jobs are planned in rounds, and merged on two levels."""

    def levels(work, merging):
        return Level(-(-work.units // FAN_IN), 1), Level(1, 2)

    for module in (merge_levels, planning, spread_shards):
        monkeypatch.setattr(module, "choose_levels", levels)
    monkeypatch.setattr(list_duplicates, "_PREVIEWED_CLUSTERS", 1)  # of so few records
    return lambda range_bytes: monkeypatch.setattr(merge_levels, "RANGE_BYTES", range_bytes)


def make_corpus(folder, documents):
    """So many documents of about 2 kB, ten in a file, and a tenth of them again; the bytes."""
    draw, size = random.Random(8), 0
    folder.mkdir()
    texts = [" ".join(f"{draw.getrandbits(40):x}" for _ in range(180)) for _ in range(documents)]
    texts += texts[::10]
    for start in range(0, len(texts), 10):
        lines = (json.dumps({"text": text}) + "\n" for text in texts[start : start + 10])
        size += (folder / f"{start:05d}.jsonl").write_text("".join(lines))
    return size


def count(running, corpus, out):
    """Builds a set, and counts what its steps ask of the server."""
    options = {"no_labels": True, "no_report": True, "unit_size": "16KiB"}
    job = open_job(TextOptions((str(corpus),), out, **options, num_shards=NUM_SHARDS))
    workspace, counted, plans, sizes = job.workspace, {}, [], dict[str, int]()

    def watched(job_steps):
        for step in job_steps:
            if step.name == "PlanParts":
                plans.append(load_merge_plan(workspace))
                files = storage.list_tree(workspace.out)
                sizes.update((f"/{name}", one.size) for name, one in files)
            running.reset()
            yield step
            counts = running.counts()
            reads, writes = (
                sum(number for kind, number in counts.kinds.items() if kind in kinds)
                for kinds in (READS, WRITES)
            )
            counted[step.name] = Counted(reads, writes, sum(counts.sent.values()))

    with locked_output(workspace):
        build = begin(job)
        merging = merging_of(job, build)
        run_here(watched(steps(job, merging, launched=False)), build, workers=1)
    rounds = [name for one in round_names(job) for name in (f"Begin{one}", one)]
    stages = {
        name: Counted(*map(sum, zip(*(counted[step] for step in own), strict=True)))
        for name, own in {**STAGES, "plan": (*rounds, "PlanShards")}.items()
    }
    manifest = load_manifest(place_of(out))
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    records = sum(shard.records for shard in shards)
    of_units = {name: size for name, size in sizes.items() if "/units/" in name}
    rows = sum(size for name, size in of_units.items() if name.endswith(".arrow"))
    rows = rows * records // manifest.ledger.read
    payload = sum(shard.bytes for shard in shards)
    units = sum(name.endswith(".tfrecord") for name in of_units)
    work = MergeWork(units, len(shards), records, payload, rows)
    kinds = ("/units/", "/runs-", "/shards/", ".recipe", "-of-")
    files = sum(any(kind in name for kind in kinds) for name in sizes)
    return CountedJob(stages, files, work, merging, *plans)


@pytest.mark.parametrize(("documents", "ranges"), [(300, 2), (600, 4), (1200, 8)])
def test_a_large_job_asks_what_the_page_says(documents, ranges, lowered, repository, tmp_path):
    lowered(make_corpus(tmp_path / "corpus", documents) // ranges)
    with versitygw(tmp_path) as server, proxy(server, tmp_path / "proxy") as running:
        with connected(running.server):
            job = count(running, tmp_path / "corpus", f"{running.server.bucket}/set")
    assert job.merging.ranges == ranges
    page = runpy.run_path(str(repository / "docs" / "make_scale.py"))
    levels = [Level(*level) for level in job.plan.levels]
    model = page["shuffle_traffic"](job.work, levels, job.merging)
    model["plan"] = page["planning_traffic"](job.work, ranges, len(job.plan.recipes))
    model["stage"] = page["staging_traffic"](job.work._replace(records=0))  # the corpus is local
    model["parts"] = next(page["_committing"](job.work)).traffic
    assert job.stages.keys() == model.keys()
    for name, counted in job.stages.items():
        said = model[name]
        # Of so small a job the index has a part for each of three splits, where the page has as
        # many as it has records for; and the page leaves out the duplicates and the quarantine.
        others = 16 + 4 * ranges if name == "parts" else 2
        assert 0.9 * said.reads - 1 <= counted.reads <= 1.1 * said.reads + others, name
        # Reports of progress and leases are by the clock.
        assert said.writes <= counted.writes <= 1.1 * said.writes + 15, name
        if name.startswith(("merge", "shard")):  # elsewhere what is said of a unit outweighs rows
            assert 0.9 * said.written_bytes <= counted.sent <= 1.1 * said.written_bytes, name
    assert job.files == pytest.approx(page["_objects"](job.work, levels), rel=0.05)
