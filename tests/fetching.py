"""Fetches what tests need and no Python extra brings, by the package registries' own clients.

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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).parents[1] / ".engines"
_SECONDS = 1200  # for one part
_PIP = [sys.executable, "-m", "pip"]


class Part(NamedTuple):
    """Something to fetch.

    Attributes:
        name: Name of its folder, with the version: another version is another part.
        programs: What must be installed to fetch and to run it.
        fetch: Fills an empty folder.
    """

    name: str
    programs: tuple[str, ...]
    fetch: Callable[[Path], None]


def go(package: str) -> Callable[[Path], None]:
    """A program built from a Go module."""

    def fetch(folder: Path) -> None:
        _run(["go", "install", package], GOBIN=str(folder))

    return fetch


def npm(package: str) -> Callable[[Path], None]:
    """A package with all that it depends on, without running their scripts."""

    def fetch(folder: Path) -> None:
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
        _run(["npm", "install", *options, package])

    return fetch


def pip(*requirements: str) -> Callable[[Path], None]:
    """Python packages in a folder of their own, apart from those that the product needs."""

    def fetch(folder: Path) -> None:
        install = [*_PIP, "install", "--quiet", "--disable-pip-version-check"]
        _run([*install, "--target", str(folder), *requirements])

    return fetch


def maven(*artifacts: str, bom: str = "") -> Callable[[Path], None]:
    """The jars of artifacts (GROUP:NAME:VERSION) with all that they depend on.

    Args:
        artifacts: To be had.
        bom: An artifact that says the versions of others.
    """

    def fetch(folder: Path) -> None:
        wanted = "".join(_dependency(artifact) for artifact in artifacts)
        versions = _dependency(bom, "<type>pom</type><scope>import</scope>") if bom else ""
        with tempfile.TemporaryDirectory() as project:
            (Path(project) / "pom.xml").write_text(
                "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
                "<artifactId>engine</artifactId><version>1</version><dependencyManagement>"
                f"<dependencies>{versions}</dependencies></dependencyManagement>"
                f"<dependencies>{wanted}</dependencies></project>"
            )
            copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            _run(["mvn", "--batch-mode", "--quiet", *copy, "-DincludeScope=runtime"], cwd=project)

    return fetch


def _dependency(artifact: str, more: str = "") -> str:
    group, name, version = artifact.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def jars_on_pypi(requirement: str, inside: tuple[str, ...]) -> Callable[[Path], None]:
    """The jars in some folders of a source distribution, which is not built."""

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as downloads:
            download = [*_PIP, "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
            _run([*download, "--dest", downloads, requirement])
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


def part_folder(parts: Iterable[Part], prefix: str) -> Path:
    """The folder of the part whose name begins so; skips the test where it is missing."""
    (part,) = (part for part in parts if part.name.startswith(f"{prefix}-"))
    folder = FOLDER / part.name
    if not folder.is_dir():
        reason = _reason_file(part)
        why = reason.read_text() if reason.exists() else "run 'make engines'"
        pytest.skip(f"{part.name} is not there: {why}")
    return folder


def fetch_all(parts: Iterable[Part]) -> int:
    """Fetches every part that is missing; 0 also where some cannot be had."""
    FOLDER.mkdir(exist_ok=True)
    for part in parts:
        folder = FOLDER / part.name
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
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=FOLDER))
    try:
        part.fetch(unfinished)
        if not any(unfinished.iterdir()):
            raise RuntimeError("its download holds none of the expected files")
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _reason_file(part: Part) -> Path:
    return FOLDER / f"{part.name}.reason"


def _run(command: list[str], cwd: str | None = None, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in said if "ERROR" in line] or said[-1:] or ["it said nothing"]
        raise RuntimeError(f"{command[0]}: {errors[0]}")
