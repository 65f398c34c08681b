"""Documents stay true: commands run, links lead somewhere, tables name real files."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"]
DOCUMENTS += [
    "docs/reading.md",
    "docs/serve.md",
    "docs/transforms.md",
    "shard_format/FORMAT.md",
    "benchmarks/README.md",
    "samples/SOURCES.md",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, repository):
    """An empty folder with the samples in it; `shardmill` is on the PATH."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "samples").symlink_to(repository / "samples")
    programs = folder / "bin"
    programs.mkdir()
    for name, arguments in (("shardmill", " -m cli.main"), ("python", "")):
        launcher = programs / name
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        launcher.chmod(0o755)
    return folder


def run(command, folder, repository):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(repository)}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


def test_the_commands_of_the_readme_run_in_order(folder, repository):
    """In one test, since they build on each other; the Python of the README comes last."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        done = run(["sh", "-c", command], folder, repository)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = run([sys.executable, "-c", program], folder, repository)
    assert done.returncode == 0, done.stderr


def test_the_programs_of_the_page_on_reading_run(folder, repository):
    """As one, on sets that are built like those of the README."""
    for name in ("set", "clean-set"):
        if not (folder / name).exists():
            command = ["shardmill", "preprocess", "images", "samples/clothing", "--out", name]
            done = run([*command, "--resize", "shorter:64", "--no-report"], folder, repository)
            assert done.returncode == 0, done.stderr
    text = (repository / "docs" / "reading.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    done = run([sys.executable, "-c", program], folder, repository)
    assert done.returncode == 0, done.stderr


def test_make_knows_its_targets(repository):
    for target in ("demo", "test", "bench", "format", "clean", "help"):
        subprocess.run(
            ["make", "--dry-run", target], cwd=repository, capture_output=True, check=True
        )


def test_the_demo_ends_above_chance(folder, repository):
    command = ["shardmill", "demo", "--out", "demo", "--epochs", "12", "--text-epochs", "3"]
    done = run(command, folder, repository)
    assert done.returncode == 0, done.stderr
    photographs, questions = map(float, re.findall(r"accuracy +([\d.]+)%", done.stdout))
    assert photographs > 17  # 78 photographs, 10 classes: chance gives 10 %, 17 % once in 30
    assert questions > 60  # 640 questions, 16 classes: chance gives 6 %
    places = re.findall(r"^(?:shard set|model|logs) +(demo\S*)$", done.stdout, re.MULTILINE)
    assert len(set(places)) == 6
    for path in places:
        assert (folder / path).exists(), path
    again = run(command, folder, repository)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("holds this very set already") == 2
    assert re.findall("accuracy.*", again.stdout) == re.findall("accuracy.*", done.stdout)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document, repository):
    path = repository / document
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_table_of_places_is_true(repository):
    text = (repository / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"`([A-Z_]+)` in `([a-z_/]+/__init__\.py)`", text)
    assert len(rows) >= 4
    for name, module in rows:
        assert re.search(rf"^{name}\b", (repository / module).read_text(), re.MULTILINE), module


def test_no_document_names_this_machine(repository):
    for document in DOCUMENTS:
        assert str(repository) not in (repository / document).read_text(encoding="utf-8")
