"""Every row of CONTRIBUTING's "Where do I add ..." is true: a toy is added as it says, and used.

All toys go into one copy of the tree, and one process uses them, for starting it is most of the
cost; what trains is a proof.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.docs.step_process import step_process
from tests.docs.toy_cases import BUILDS, CASES, Case
from tests.docs.tree_edits import TOYS, File, Function, Line
from tests.fixtures.command_line import Completed

CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = (
    *("beam_jobs", "cli", "foundation", "inference", "reader", "search", "shard_format"),
    *("shardmill", "trainer", "viewer"),
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A copy of the packages, with all toys in it."""
    tree = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / package, tree / package, ignore=ignored)
    for case in CASES:
        for edit in case.edits:
            edit.apply(tree)
    return tree


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    """Nine images and a tiny one; nine documents and one about a toy."""
    folder = tmp_path_factory.mktemp("toys")
    for name in ("dress", "hat", "pants"):
        (folder / "raw" / name).mkdir(parents=True)
        for number, file in enumerate(sorted((samples / name).glob("*.jpg"))[1:4]):
            Image.open(file).convert("RGB").resize((40, 30)).save(
                folder / "raw" / name / f"{number}.png"
            )
    Image.new("RGB", (5, 5), "red").save(folder / "raw" / "hat" / "tiny.png")
    rows = [f"{'word ' * number}and number {number},{number % 2}" for number in range(9)]
    (folder / "toys").mkdir()
    for number in range(2):
        (folder / "toys" / f"{number}.bin").write_bytes(b"TOYdocument %d" % number)
    (folder / "archive.bin").write_bytes(b"TARCwordAwordBwordC")
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows, "about a toy,1"]))
    return folder


@pytest.fixture(scope="module")
def use(tree: Path, folder: Path) -> Iterator[Callable[[str], Completed]]:
    """Runs a step with the toys, in the process of all steps."""
    with step_process(tree, folder) as run:
        yield run


@pytest.fixture(scope="module")
def build(use: Callable[[str], Completed]) -> Callable[[str], None]:
    """Builds one of BUILDS, if it was not built yet."""

    @functools.cache
    def build(name: str) -> None:
        done = use(BUILDS[name])
        assert done.returncode == 0, f"{BUILDS[name]}\n{done.stderr}"

    return build


def rows() -> dict[str, str]:
    """First cell -> the others, of CONTRIBUTING's table."""
    (table,) = re.findall(r"^\| to add \|.*\n\|[- |]*\|\n((?:\|.*\n)+)", CONTRIBUTING, re.MULTILINE)
    return {line.split("|")[1].strip(): line.split("|", 2)[2] for line in table.splitlines()}


def test_every_row_has_a_case() -> None:
    assert set(rows()) == {case.row for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
def test_the_edits_are_what_the_row_says(case: Case) -> None:
    row = rows()[case.row]
    folders = {str(Path(path).parent) for path in re.findall(r"`([a-z_/A-Z.]+\.py)`", row)}
    for edit in case.edits:
        if isinstance(edit, File):
            assert f"`{edit.path.replace('toy', 'NAME')}`" in row
        else:
            assert f"`{edit.path}`" in row or str(Path(edit.path).parent) in folders
        if isinstance(edit, Line):
            assert f"`{edit.table}`" in row


@pytest.mark.proof
def test_the_toys_fit_the_types_of_the_packages(tree: Path, repository: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--config-file", repository / "pyproject.toml"]
    command += ["--cache-dir", tree / ".mypy_cache"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_toy_is_added_by_a_case() -> None:
    files = {str(path.relative_to(TOYS)) for path in TOYS.rglob("*.*")}
    steps = " ".join(step for case in CASES for step in case.steps)
    added = {e.path for case in CASES for e in case.edits if isinstance(e, File | Function)}
    assert files == added | {file for file in files if f"python {file}" in steps}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.proof] if case.trains else [], id=case.row)
        for case in CASES
    ],
)
def test_a_toy_is_used(
    case: Case, use: Callable[[str], Completed], build: Callable[[str], None], folder: Path
) -> None:
    for name in case.sets:
        build(name)
    out = ""
    for step in case.steps:
        done = use(step)
        assert done.returncode == 0, f"{step}\n{done.stderr}"
        out += done.stdout
    assert case.shown(folder, out)
