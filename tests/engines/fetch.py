"""Fetches the engines of the tests into .engines: `python -m tests.engines.fetch`."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fetching import Part, fetch_all, go, jars_on_pypi, maven, part_folder, pip

# Beam's Java runners and the SDK differ in version: no newer ones have all of their parts.
_BEAM_JAVA = "2.62.0"
_BEAM_GO = "2.77.0"
FLINK = "1.19.3"
SPARK = "3.5.3"
_DASK = "2024.12.1"

_BEAM = "github.com/apache/beam/sdks/v2"


def _job_server(name: str) -> Callable[[Path], None]:
    """One jar of a runner with all that it depends on, like Beam's own job server jars.

    Flink sends the jars of a job server with each job: 160 files take it 13 s, one takes none.
    """

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as jars:
            maven(f"org.apache.beam:{name}:{_BEAM_JAVA}")(Path(jars))
            _merge_jars(sorted(Path(jars).glob("*.jar")), folder / f"{name}.jar")

    return fetch


def _merge_jars(jars: Sequence[Path], merged: Path) -> None:
    """Copies the entries of jars into one: of files of one name the first, of services all lines.

    Signatures are left out: they are of jars that are no longer whole.
    """
    services: dict[str, list[bytes]] = {}
    with zipfile.ZipFile(merged, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        seen: set[str] = set()
        for jar in jars:
            with zipfile.ZipFile(jar) as source:
                for entry in source.infolist():
                    name = entry.filename
                    if name.startswith("META-INF/services/") and not entry.is_dir():
                        services.setdefault(name, []).append(source.read(entry))
                    elif name not in seen and not name.endswith((".SF", ".RSA", ".DSA", "/")):
                        seen.add(name)
                        target.writestr(name, source.read(entry))
        for name, parts in services.items():
            target.writestr(name, b"\n".join(parts))


PARTS = (
    Part(f"prism-{_BEAM_GO}", ("go",), go(f"{_BEAM}/go/cmd/prism@v{_BEAM_GO}")),
    Part(f"beam-boot-{_BEAM_GO}", ("go",), go(f"{_BEAM}/python/container@v{_BEAM_GO}")),
    Part(
        f"flink-{FLINK}",
        ("java",),
        jars_on_pypi(f"apache-flink-libraries=={FLINK}", ("/deps/lib",)),
    ),
    Part(f"beam-flink-{_BEAM_JAVA}", ("java", "mvn"), _job_server("beam-runners-flink-1.19")),
    Part(f"spark-{SPARK}", ("java",), jars_on_pypi(f"pyspark=={SPARK}", ("/deps/jars",))),
    Part(f"beam-spark-{_BEAM_JAVA}", ("java", "mvn"), _job_server("beam-runners-spark-3")),
    Part(f"dask-{_DASK}", (), pip(f"dask[distributed]=={_DASK}")),
)


def fetched(name: str) -> Path:
    """The folder of an engine; skips the test where it is missing."""
    return part_folder(PARTS, name)


if __name__ == "__main__":
    sys.exit(fetch_all(PARTS))
