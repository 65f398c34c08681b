"""Kills of workers on Flink: `python -m benchmarks.engine_kills [--kills 10]`.

SIGKILL of a TaskManager, and of a worker pool with its workers, each at that many seeded moments
of a job; five seconds later it is started again, as a supervisor does. Says for each kill whether
the job ended right by itself, or the same command completed it, always with the root hash of the
local engine. Needs 'make engines'.
"""

from __future__ import annotations

import random
import shutil
from typing import Any

from benchmarks.measure import HERE, parser, write
from tests.engines.flink import POOLS, TASK_MANAGERS, flink_cluster
from tests.engines.jobs import slow_job_in, with_local_hash
from tests.engines.kills import kill_and_finish, seconds_of_work


def main() -> None:
    """Kills, prints a line for each, writes the results."""
    options = parser("engine_kills", __doc__, turns=False)
    options.add_argument("--kills", type=int, default=10, help="of each kind")
    options.add_argument("--copies", type=int, default=4, help="of the sample images")
    arguments = options.parse_args()
    work = arguments.work / "kills"
    shutil.rmtree(work, ignore_errors=True)
    job = slow_job_in(work / "corpus", HERE.parent, arguments.copies)
    job = with_local_hash(job, work / "local")
    with flink_cluster(work / "flink") as cluster:
        # The first job of a cluster also starts its workers, and takes longer.
        _, *spans = (seconds_of_work(cluster, job, work / f"whole-{turn}") for turn in range(3))
        span = min(spans)
        results: dict[str, Any] = {
            "seconds_of_work": round(span, 1),
            "kills": [],
        }
        for number in range(arguments.kills):
            for victims in (TASK_MANAGERS, POOLS):
                draw = random.Random(f"{number} {victims}")
                moment = (number + draw.random()) / arguments.kills * 0.9 * span
                out = work / f"{number}-{victims[0]}"
                found = kill_and_finish(cluster, job, out, draw.choice(victims), moment)
                shutil.rmtree(out)
                results["kills"].append(found._asdict())
                print(found, flush=True)
    write("engine_kills", results)


if __name__ == "__main__":
    main()
