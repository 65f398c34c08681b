"""CPU time of planning and sharding on local files, for two versions of shardmill in turns.

python -m benchmarks.shard_stage --before DIR --after DIR --images SRC --documents SRC

DIR is a git worktree. Units are staged once for each version; each turn plans and writes all shards
in one process. CPU time, because other work on a machine changes it least.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import machine

RESULTS = Path(__file__).parent / "results" / "merge.json"

_ONE_TURN = """
import json, sys, time
from pathlib import Path
from beam_jobs.build import workspace_of
from beam_jobs.options import OPTIONS
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.list import list_corpus, read_units, resolve_options
from beam_jobs.stages.plan import plan_shards
from beam_jobs.stages.shard import write_shard
from beam_jobs.stages.stage import stage_unit

name, source, out, staging = sys.argv[1:]
sizes = {"unit_size": "256KiB", "shard_size": "1MiB", "dedup": "off"}
job = resolve_options(
    OPTIONS[name]((source,), out, staging=staging, no_labels=True, split="train=1", **sizes)
)
record_type, workspace = RECORD_TYPES[name](job), workspace_of(job)
workspace.create()
list_corpus(job, record_type, workspace)
summaries = [stage_unit(unit, job, record_type, workspace) for unit in read_units(workspace)]
start = time.process_time()
specs = plan_shards(summaries, job, record_type, workspace)
planned = time.process_time()
results = [write_shard(spec, record_type, workspace) for spec in specs]
done = time.process_time()
workspace.remove()
print(json.dumps({
    "units": len(summaries), "shards": len(specs),
    "records": sum(result.info.records for result in results),
    "sha256": [result.info.sha256 for result in results][:3],
    "plan": planned - start, "shard": done - planned,
}))
"""


def main() -> None:
    """Runs the benchmark and writes its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("before", "after", "images", "documents"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "command": f"python -m benchmarks.shard_stage --repeat {chosen.repeat}",
    }
    with tempfile.TemporaryDirectory() as folder:
        for kind, source in (("image", chosen.images), ("text", chosen.documents)):
            found[kind] = _measure(kind, source, chosen, Path(folder))
            print(kind, json.dumps({k: v for k, v in found[kind].items() if k != "turns"}))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _measure(kind: str, source: str, chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    turns: dict[str, list[Any]] = {"before": [], "after": []}
    for turn in range(-1, chosen.repeat):  # the first one stages
        for name in ("before", "after") if turn % 2 else ("after", "before"):
            staging = folder / f"{kind}-{name}"
            arguments = [kind, source, str(folder / f"out-{turn}-{name}-{kind}"), str(staging)]
            done = subprocess.run(
                [sys.executable, "-c", _ONE_TURN, *arguments],
                env={"PYTHONPATH": getattr(chosen, name), "PATH": "/usr/bin:/bin"},
                check=True,
                stdout=subprocess.PIPE,
            )
            if turn >= 0:
                turns[name].append(json.loads(done.stdout))
    first = turns["before"][0]
    assert all(one["sha256"] == first["sha256"] for runs in turns.values() for one in runs)
    ratios = [
        after["shard"] / before["shard"]
        for before, after in zip(turns["before"], turns["after"], strict=True)
    ]
    return {
        **{key: first[key] for key in ("units", "shards", "records")},
        **{
            f"{stage}_seconds_{name}": round(statistics.median(one[stage] for one in runs), 3)
            for name, runs in turns.items()
            for stage in ("plan", "shard")
        },
        "shard_ratio": round(statistics.median(ratios), 3),
        "turns": turns,
    }


if __name__ == "__main__":
    main()
