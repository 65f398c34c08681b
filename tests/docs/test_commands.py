"""Commands and programs in documents run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.command_line import run_here

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def commands_of(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in re.findall(r"^\$ (.+)$", text, re.MULTILINE)]


def sections_of(text: str) -> dict[str, str]:
    """Heading -> text up to the next heading, of sections that have commands or a program."""
    _, *parts = re.split(r"^##+ (.+)$", text, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: text for name, text in sections.items() if "\n$ " in text or "```python" in text}


SECTIONS = sections_of(README)
# Name of a set -> the command that builds it.
BUILDS = {
    command[command.index("--out") + 1]: command
    for command in commands_of(README)
    if command[:2] == ["shardmill", "preprocess"]
    and "--out" in command
    and not {"--dry-run", "--overwrite", "--append"} & set(command)
}


def run_program(program, folder):
    return run_here(lambda: exec(program, {"__name__": "__main__"}), folder, ["program.py"])


@pytest.fixture(scope="module")
def need(folder, run):
    """Builds the sets of README that a text names, where no earlier test has built them."""

    def need(text: str) -> None:
        for name, command in BUILDS.items():
            if re.search(rf"\b(?<!-){name}\b(?!-)", text) and not (folder / name).exists():
                done = run(*command)
                assert done.returncode == 0, done.stderr

    return need


def test_the_readme_has_commands():
    assert len(commands_of(README)) >= 20
    assert sum("```python" in text for text in SECTIONS.values()) == 1


# Tests in tests/cli run `read`, `export-index` and `cache`; tests in tests/trainer train on token
# ids. Most of the time goes into `doctor`, whose own tests are proofs as well. The main example is
# also killed in test_main_example.py.
LONG = {"From photographs to predictions", "Reading", "Tokens"}


@pytest.mark.parametrize(
    "section",
    [pytest.param(each, marks=[pytest.mark.proof] if each in LONG else []) for each in SECTIONS],
)
def test_the_commands_of_a_section_of_the_readme_run_in_order(section, need, run, folder):
    """On sets that earlier sections have built; a program comes last."""
    text = SECTIONS[section]
    for command in commands_of(text):
        if command not in BUILDS.values():
            need(" ".join(command[1:]))
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        need(program)
        done = run_program(program, folder)
        assert done.returncode == 0, done.stderr


@pytest.mark.proof
def test_the_programs_of_the_page_on_reading_run(need, folder, repository):
    """As one, on sets of the README."""
    text = (repository / "docs" / "reading.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    need(program)
    done = run_program(program, folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.proof  # tests in tests/trainer/export run the commands
def test_the_commands_and_programs_of_the_page_on_exporting_run(need, folder, repository, run):
    text = (repository / "docs" / "export.md").read_text(encoding="utf-8")
    need("set")
    shutil.rmtree(folder / "run", ignore_errors=True)  # of a section of the README
    assert run(*shlex.split("shardmill train set --epochs 1 --run-dir run")).returncode == 0
    for command in commands_of(text):
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        done = run_program(program, folder)
        assert done.returncode == 0, done.stderr


def test_make_knows_its_targets(repository):
    for target in ("demo", "test", "proofs", "bench", "format", "clean", "help"):
        subprocess.run(
            ["make", "--dry-run", target], cwd=repository, capture_output=True, check=True
        )
