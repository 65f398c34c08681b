"""What merging saves, counted on a server: requests of planning, merging and sharding."""

from __future__ import annotations

import json
import random

import pytest

from beam_jobs.options import TextOptions
from beam_jobs.stages.plan.merge_levels import OBJECT_STORE, Level, MergeLimits, Merging
from foundation.storage import place_of
from shard_format import load_manifest
from tests.beam_jobs.stages.merge.builds import Build
from tests.servers.proxy import proxy
from tests.servers.test_builds import connected
from tests.servers.versitygw import versitygw

pytestmark = pytest.mark.engine

# What 8 MiB are at full size is 8 KiB here: units of 16 KiB, and one request for a block.
BLOCK = 8 << 10
LIMITS = MergeLimits(block_bytes=64 * BLOCK, row_bytes=1 << 20, fan_in=12, shard_inputs=4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """600 documents of about 2 kB, in 60 files."""
    folder, draw = tmp_path_factory.mktemp("documents"), random.Random(8)
    for number in range(60):
        texts = (" ".join(f"{draw.getrandbits(40):x}" for _ in range(180)) for _ in range(10))
        lines = (json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{number:02d}.jsonl").write_text("".join(lines))
    return folder


def no_levels(work, merging):
    return ()


def two_levels(work, merging):
    return Level(-(-work.units // LIMITS.fan_in), 1), Level(1, 2)


def requests_of(running, corpus, name, levels):
    """Builds a set; its root hash, requests of planning to sharding, and the bound for them."""
    out = f"{running.server.bucket}/{name}"
    job = TextOptions((str(corpus),), out, no_labels=True, unit_size="16KiB", num_shards=40)
    build = Build(job, Merging(OBJECT_STORE, LIMITS, 4), levels)
    build.stage()
    running.reset()
    plan = build.plan()
    results = build.shard(plan, build.merge(plan) if plan else None)
    requests = sum(running.counts().kinds.values())
    units = sum(summary.kept > 0 for summary in build.summaries)
    payload = sum(result.info.bytes for result in results)
    build.commit(results)
    bound = 4 * payload / BLOCK + 4 * (units + len(results))
    return load_manifest(place_of(out)).root_hash, requests, bound


def test_merging_keeps_requests_within_a_few_for_each_block(corpus, tmp_path, capsys):
    with versitygw(tmp_path) as server, proxy(server, tmp_path / "proxy") as running:
        with connected(running.server):
            direct = requests_of(running, corpus, "direct", lambda *_: ())
            levels = lambda work, _: (Level(-(-work.units // 12), 1), Level(1, 2))  # noqa: E731
            merged = requests_of(running, corpus, "merged", levels)
    with capsys.disabled():
        print(
            f"\nrequests: {direct[1]} without levels, {merged[1]} with two, bound {merged[2]:.0f}"
        )
    assert merged[0] == direct[0]
    assert direct[1] > merged[2]
    assert merged[1] <= merged[2]
