"""Planning on Flink: `python -m benchmarks.planning_on_flink [--thousands 50,200,500]`.

Tiny documents, one of a hundred a copy of another one, from a Flink cluster of this machine with
two TaskManagers and from the local engine, both planned in rounds over four ranges. Seconds are
those of each stage, as build.json has them. Needs 'make engines'.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import HERE, parser, write
from shard_format import naming
from tests.engines.flink import flink_cluster
from tests.engines.jobs import IN_ROUNDS, Job

_COPIED = 100  # one document in so many
_FILES = 40


def main() -> None:
    """Builds every size on both engines, prints a line for each, writes the results."""
    options = parser("planning_on_flink", __doc__, turns=False)
    options.add_argument("--thousands", default="50,200,500", help="documents of each corpus")
    arguments = options.parse_args()
    work = arguments.work / "planning-on-flink"
    shutil.rmtree(work, ignore_errors=True)
    results = []
    with flink_cluster(work / "flink") as cluster:
        for thousands in arguments.thousands.split(","):
            corpus = _documents(work / thousands, 1000 * int(thousands))
            for engine, beam_args in (("local", ()), ("Flink", cluster.beam_args)):
                given = ("--workers", "2") if engine == "local" else ()
                own = ("text", str(corpus), "--unit-size", "512KiB", "--num-shards", "8", *given)
                job = Job(HERE.parent, own, program=IN_ROUNDS)
                results.append({"engine": engine, "documents": 1000 * int(thousands)})
                results[-1] |= _built(job, work / engine, beam_args)
                print(results[-1], flush=True)
            hashes = {one.pop("root_hash") for one in results[-2:]}
            if len(hashes) != 1:
                raise SystemExit(f"the sets differ: {hashes}")
    write("planning_on_flink", {"builds": results})
    shutil.rmtree(work)


def _documents(folder: Path, number: int) -> Path:
    """JSON Lines in some files."""
    folder.mkdir(parents=True)
    for part in range(_FILES):
        with (folder / f"{part}.jsonl").open("w") as file:
            for row in range(part, number, _FILES):
                said = row - _FILES if row % _COPIED == part and row >= _FILES else row
                file.write(json.dumps({"text": f"document {said:08d} of a corpus"}) + "\n")
    return folder


def _built(job: Job, out: Path, beam_args: Sequence[str]) -> dict[str, Any]:
    begun = time.monotonic()
    code, printed = job.run(out, beam_args)
    if code:
        raise SystemExit(printed)
    seconds = round(time.monotonic() - begun, 1)
    build = json.loads((out / naming.BUILD).read_text())
    manifest = json.loads((out / naming.MANIFEST).read_text())
    shutil.rmtree(out)
    stages = {stage["name"]: stage["seconds"] for stage in build["stages"]}
    return {"seconds": seconds, "stages": stages, "root_hash": manifest["root_hash"]}


if __name__ == "__main__":
    main()
