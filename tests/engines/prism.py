"""Prism, Beam's runner in Go: started by Beam itself, or a job server of its own.

preprocess(options, started_by_beam())
with prism_server(folder) as beam_args:
    preprocess(options, beam_args)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.engines.fetch import fetched
from tests.engines.processes import free_port, listens, processes

_HOST = "127.0.0.1"


def started_by_beam() -> list[str]:
    """What a user passes to Beam, which starts Prism and ends it."""
    return ["--runner=PrismRunner", f"--prism_location={_program()}"]


@contextlib.contextmanager
def prism_server(folder: Path) -> Iterator[list[str]]:
    """A Prism with an external worker pool; what a user passes to Beam.

    Args:
        folder: For the logs.
    """
    program, port, pool = _program(), free_port(), free_port()
    repository = str(Path(__file__).parents[2])
    with processes(folder / "logs") as group:
        worker_pool = [sys.executable, "-m", "tests.engines.worker_pool", _HOST, str(pool)]
        group.start("pool", worker_pool, {"PYTHONPATH": repository})
        group.start("prism", [str(program), f"--job_port={port}", "--serve_http=false"])
        group.wait_for("pool", lambda: listens(_HOST, pool))
        group.wait_for("prism", lambda: listens(_HOST, port))
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint={_HOST}:{port}",
            "--environment_type=EXTERNAL",
            f"--environment_config={_HOST}:{pool}",
        ]


def _program() -> Path:
    return fetched("prism") / "prism"
