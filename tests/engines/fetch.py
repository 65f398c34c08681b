"""Fetches the engines of the tests into .engines: `python -m tests.engines.fetch`.

A part that is there already is left as it is. One that cannot be had prints its reason, keeps it
for the tests, which skip with it, and does not keep the other parts from being fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pytest

ENGINES = Path(__file__).parents[2] / ".engines"

# Beam's Java runners and the SDK differ in version: no newer ones have all of their parts.
_BEAM_JAVA = "2.62.0"
_BEAM_GO = "2.77.0"
FLINK = "1.19.3"
SPARK = "3.5.3"
_DASK = "2024.12.1"

_SECONDS = 1200  # for one part


class Part(NamedTuple):
    """Something to fetch.

    Attributes:
        name: Of its folder, with the version: another version is another part.
        programs: What must be installed to fetch and to run it.
        fetch: Fills an empty folder.
    """

    name: str
    programs: tuple[str, ...]
    fetch: Callable[[Path], None]


def _go(package: str) -> Callable[[Path], None]:
    def fetch(folder: Path) -> None:
        _run(["go", "install", package], GOBIN=str(folder))

    return fetch


def _maven(artifact: str) -> Callable[[Path], None]:
    """One jar of an artifact with all that it depends on, like Beam's own job server jars.

    Flink sends the jars of a job server with each job: 160 files take it 13 s, one takes none.
    """

    def fetch(folder: Path) -> None:
        group, name, version = map(escape, artifact.split(":"))
        wanted = (
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
        with tempfile.TemporaryDirectory() as project:
            (Path(project) / "pom.xml").write_text(
                "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
                "<artifactId>engine</artifactId><version>1</version>"
                f"<dependencies>{wanted}</dependencies></project>"
            )
            copy = ["dependency:copy-dependencies", f"-DoutputDirectory={project}/jars"]
            _run(["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", *copy], cwd=project)
            _merge_jars(sorted((Path(project) / "jars").glob("*.jar")), folder / f"{name}.jar")

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


def _pypi(requirement: str) -> Callable[[Path], None]:
    """A package with all that it depends on, for PYTHONPATH."""

    def fetch(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        _run([*pip, "--disable-pip-version-check", requirement])

    return fetch


def _jars_on_pypi(requirement: str, inside: tuple[str, ...]) -> Callable[[Path], None]:
    """The jars in some folders of a source distribution, which is not built."""

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as downloads:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            _run([*pip, "--disable-pip-version-check", "--dest", downloads, requirement])
            (archive,) = Path(downloads).iterdir()
            with tarfile.open(archive) as tar:
                for member in tar:
                    path = Path(member.name)
                    if path.suffix == ".jar" and path.parent.as_posix().endswith(inside):
                        source = tar.extractfile(member)
                        assert source is not None
                        with source, (folder / path.name).open("wb") as target:
                            shutil.copyfileobj(source, target)

    return fetch


PARTS = {
    part.name: part
    for part in (
        Part(
            f"prism-{_BEAM_GO}",
            ("go",),
            _go(f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{_BEAM_GO}"),
        ),
        Part(
            f"flink-{FLINK}",
            ("java",),
            _jars_on_pypi(f"apache-flink-libraries=={FLINK}", ("/deps/lib",)),
        ),
        Part(
            f"beam-flink-{_BEAM_JAVA}",
            ("java", "mvn"),
            _maven(f"org.apache.beam:beam-runners-flink-1.19:{_BEAM_JAVA}"),
        ),
        Part(
            f"spark-{SPARK}",
            ("java",),
            _jars_on_pypi(f"pyspark=={SPARK}", ("/deps/jars",)),
        ),
        Part(
            f"beam-spark-{_BEAM_JAVA}",
            ("java", "mvn"),
            _maven(f"org.apache.beam:beam-runners-spark-3:{_BEAM_JAVA}"),
        ),
        Part(f"dask-{_DASK}", (), _pypi(f"dask[distributed]=={_DASK}")),
    )
}


def fetched(prefix: str) -> Path:
    """The folder of the part whose name begins so; skips the test where it is missing."""
    (part,) = (part for part in PARTS.values() if part.name.startswith(f"{prefix}-"))
    folder = ENGINES / part.name
    if not folder.is_dir():
        reason = _reason_file(part)
        why = reason.read_text() if reason.exists() else "run 'make engines'"
        pytest.skip(f"{part.name} is not there: {why}")
    return folder


def main() -> int:
    """Fetches every part that is missing; 0 also where some cannot be had."""
    ENGINES.mkdir(exist_ok=True)
    for part in PARTS.values():
        folder = ENGINES / part.name
        if folder.is_dir():
            print(f"{part.name}: there already")
            continue
        try:
            _fetch(part, folder)
        except (OSError, RuntimeError, subprocess.SubprocessError, tarfile.TarError) as error:
            reason = str(error).strip().splitlines()[-1]
            _reason_file(part).write_text(reason)
            print(f"{part.name}: cannot be had: {reason}")
        else:
            _reason_file(part).unlink(missing_ok=True)
            print(f"{part.name}: fetched")
    return 0


def _fetch(part: Part, folder: Path) -> None:
    missing = [program for program in part.programs if shutil.which(program) is None]
    if missing:
        raise RuntimeError(f"{' and '.join(missing)} must be installed for it")
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=ENGINES))
    try:
        part.fetch(unfinished)
        if not any(unfinished.iterdir()):
            raise RuntimeError("its download holds none of the expected files")
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _reason_file(part: Part) -> Path:
    return ENGINES / f"{part.name}.reason"


def _run(command: list[str], cwd: str | None = None, **environment: str) -> None:
    found = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if found.returncode:
        said = [line for line in (found.stdout + found.stderr).splitlines() if line.strip()]
        errors = [line for line in said if "ERROR" in line] or said[-1:] or ["it said nothing"]
        raise RuntimeError(f"{command[0]}: {errors[0]}")


if __name__ == "__main__":
    sys.exit(main())
