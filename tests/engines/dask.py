"""A Dask cluster: a scheduler and two workers of one thread each.

with dask_cluster(folder) as beam_args:
    preprocess(options, beam_args)
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.engines.fetch import fetched
from tests.engines.processes import free_port, listens, processes

_HOST = "127.0.0.1"


def dask_environment() -> dict[str, str]:
    """Where the launcher and the workers find Dask, which the project does not need."""
    return {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), str(fetched("dask"))))}


@contextlib.contextmanager
def dask_cluster(folder: Path) -> Iterator[list[str]]:
    """A cluster that has been started; what a user passes to Beam.

    Args:
        folder: For logs and what the workers spill.
    """
    port, environment = free_port(), dask_environment()
    address = f"tcp://{_HOST}:{port}"
    scheduler = ["-m", "distributed.cli.dask_scheduler", f"--host={_HOST}", f"--port={port}"]
    worker = ["-m", "distributed.cli.dask_worker", address, f"--host={_HOST}", "--nthreads=1"]
    with processes(folder / "logs") as group:
        group.start("scheduler", [sys.executable, *scheduler, "--no-dashboard"], environment)
        group.wait_for("scheduler", lambda: listens(_HOST, port))
        for number in (1, 2):
            own = ["--no-nanny", "--no-dashboard", f"--local-directory={folder / str(number)}"]
            group.start(f"worker{number}", [sys.executable, *worker, *own], environment)
        yield [
            "--runner=DaskRunner",
            f"--dask_client_address={address}",
            "--dask_partition_size=1",
        ]
