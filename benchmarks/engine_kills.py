"""Kills of workers on Flink: `python -m benchmarks.engine_kills [--kills 10] [--planning]`.

SIGKILL of a TaskManager, and of a worker pool with its workers, each when that many seeded numbers
of units of a job are staged, or of files of its plan are written; five seconds later it is started
again, as a supervisor does. Says for each kill whether the job ended right by itself, or the same
command completed it, always with the root hash of the local engine. Needs 'make engines'.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
from typing import Any

from benchmarks.measure import HERE, parser, write
from tests.engines.flink import POOLS, TASK_MANAGERS, flink_cluster
from tests.engines.jobs import (
    IN_ROUNDS,
    planned_files,
    slow_job_in,
    staged_units,
    with_local_hash,
)
from tests.engines.kills import kill_and_finish

_PLANNED_FILES = 65  # of four ranges; those behind are written within a moment


def main() -> None:
    """Kills, prints a line for each, writes the results."""
    options = parser("engine_kills", __doc__, turns=False)
    options.add_argument("--kills", type=int, default=10, help="of each kind")
    options.add_argument("--copies", type=int, default=4, help="of the sample images")
    options.add_argument("--planning", action="store_true", help="kill while all workers plan")
    arguments = options.parse_args()
    work = arguments.work / "kills"
    shutil.rmtree(work, ignore_errors=True)
    job = slow_job_in(work / "corpus", HERE.parent, arguments.copies)
    job = with_local_hash(job, work / "local")
    most, done = job.units, staged_units
    if arguments.planning:
        job = dataclasses.replace(job, program=IN_ROUNDS)
        most, done = _PLANNED_FILES, planned_files
    with flink_cluster(work / "flink") as cluster:
        results: dict[str, Any] = {"units": job.units, "kills": []}
        for number in range(arguments.kills):
            for victims in (TASK_MANAGERS, POOLS):
                draw = random.Random(f"{number} {victims}")
                units = 1 + int((number + draw.random()) / arguments.kills * (most - 1))
                out = work / f"{number}-{victims[0]}"
                victim = draw.choice(victims)
                kill = kill_and_finish(cluster, job, out, victim, units, done=done)
                shutil.rmtree(out)
                results["kills"].append(kill._asdict())
                print(kill, flush=True)
    write("planning_kills" if arguments.planning else "engine_kills", results)


if __name__ == "__main__":
    main()
