"""Spark in one process: Beam's job server with a local master, and an external worker pool.

with spark_server(folder) as beam_args:
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

# What Spark's own scripts pass to a JVM of version 17.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)


@contextlib.contextmanager
def spark_server(folder: Path) -> Iterator[list[str]]:
    """A job server with a Spark of two threads; what a user passes to Beam.

    Args:
        folder: For artifacts and logs.
    """
    # Beam's classes first: Spark has an older Guava.
    jars = [*fetched("beam-spark").glob("*.jar"), *sorted(fetched("spark").glob("*.jar"))]
    port, artifacts, other, pool = (free_port() for _ in range(4))
    repository = str(Path(__file__).parents[2])
    with processes(folder / "logs") as group:
        worker_pool = [sys.executable, "-m", "tests.engines.worker_pool", _HOST, str(pool)]
        group.start("pool", worker_pool, {"PYTHONPATH": repository})
        command = [
            "java",
            *("-Xmx768m", "-XX:+UseSerialGC"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            *("-cp", ":".join(map(str, jars))),
            "org.apache.beam.runners.spark.SparkJobServerDriver",
            "--spark-master-url=local[2]",
            *(f"--job-host={_HOST}", f"--job-port={port}"),
            *(f"--artifact-port={artifacts}", f"--expansion-port={other}"),
            f"--artifacts-dir={folder / 'artifacts'}",
        ]
        group.start("jobserver", command, {"SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": _HOST})
        group.wait_for("pool", lambda: listens(_HOST, pool))
        group.wait_for("jobserver", lambda: listens(_HOST, port))
        yield [
            "--runner=SparkRunner",
            f"--job_endpoint={_HOST}:{port}",
            "--environment_type=EXTERNAL",
            f"--environment_config={_HOST}:{pool}",
        ]
