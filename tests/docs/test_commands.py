"""Commands and programs in documents run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.command_line import run_here

REPOSITORY = Path(__file__).parents[2]
# Pages whose commands and programs run here, section by section.
PAGES = (
    "README.md",
    "docs/images.md",
    "docs/records.md",
    "docs/text.md",
    "docs/changes.md",
    "docs/curation.md",
    "docs/command-line.md",
    "docs/engines.md",
    "docs/exchange.md",
)
# Pages with commands that other tests run.
OTHER_PAGES = {
    "docs/dataflow.md",  # test_dataflow_page
    "docs/export.md",  # below
    "docs/reading.md",  # below
    "docs/search.md",  # test_search_page
    "docs/training.md",  # test_training_pages
    "docs/tutorials/images.md",  # test_tutorials, test_main_example
    "docs/tutorials/text.md",  # test_tutorials
    "docs/workers.md",  # test_training_pages
}


def read_page(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def commands_of(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in re.findall(r"^\$ (.+)$", text, re.MULTILINE)]


def programs_of(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def sections_of(page: str) -> dict[str, str]:
    """Page and heading -> text up to the next heading, of what has commands or a program."""
    parts = re.split(r"^##? (.+)$", read_page(page), flags=re.MULTILINE)[1:]
    sections = zip(parts[::2], parts[1::2], strict=True)
    return {
        f"{page}: {heading}": text
        for heading, text in sections
        if commands_of(text) or programs_of(text)
    }


SECTIONS = {name: text for page in PAGES for name, text in sections_of(page).items()}
# Name of a set -> the command that builds it.
BUILDS = {
    command[command.index("--out") + 1]: command
    for text in SECTIONS.values()
    for command in commands_of(text)
    if command[:2] == ["shardmill", "preprocess"]
    and "--out" in command
    and not {"--dry-run", "--overwrite", "--append"} & set(command)
}


def run_program(program, folder):
    return run_here(lambda: exec(program, {"__name__": "__main__"}), folder, ["program.py"])


@pytest.fixture(scope="module")
def need(folder, run):
    """Builds the sets of PAGES that a text names, where no earlier test has built them."""

    def need(text: str) -> None:
        for name, command in BUILDS.items():
            if re.search(rf"\b(?<!-){name}\b(?!-)", text) and not (folder / name).exists():
                done = run(*command)
                assert done.returncode == 0, done.stderr

    return need


def test_every_page_with_commands_is_run():
    pages = [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"]
    names = {str(path.relative_to(REPOSITORY)) for path in pages}
    with_commands = {name for name in names if re.search(r"^\$ ", read_page(name), re.MULTILINE)}
    assert with_commands == {*PAGES, *OTHER_PAGES}


# Sections that train, or repeat others. Tests of the packages run the commands.
LONG = {
    "README.md: shardmill",
    "README.md: Texts",
    "README.md: Reading",
    "README.md: Training",
    "docs/command-line.md: The command line",
    "docs/text.md: Documents",
    "docs/text.md: Tokens",
}


def test_long_sections_exist():
    assert LONG <= SECTIONS.keys()


@pytest.mark.parametrize(
    "section",
    [pytest.param(each, marks=[pytest.mark.proof] if each in LONG else []) for each in SECTIONS],
)
def test_the_commands_of_a_section_run_in_order(section, need, run, folder):
    """On sets that earlier sections have built; a program comes last."""
    text = SECTIONS[section]
    for command in commands_of(text):
        if command not in BUILDS.values():
            need(" ".join(command[1:]))
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    for program in programs_of(text):
        need(program)
        done = run_program(program, folder)
        assert done.returncode == 0, done.stderr


@pytest.mark.proof
def test_the_programs_of_the_page_on_reading_run(need, folder):
    """As one, on the set of README."""
    program = "".join(programs_of(read_page("docs/reading.md")))
    need(program)
    done = run_program(program, folder)
    assert done.returncode == 0, done.stderr


# Sections of docs/frameworks.md whose programs need packages of their own.
ELSEWHERE = ("PyTorch", "Grain", "JAX, and Keras on JAX")


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param(None, marks=pytest.mark.proof),
        *(pytest.param([name], marks=pytest.mark.interop) for name in ELSEWHERE),
    ],
)
def test_the_programs_of_the_page_on_frameworks_run(sections, need, folder):
    page = sections_of("docs/frameworks.md")
    page = {name.removeprefix("docs/frameworks.md: "): text for name, text in page.items()}
    assert set(ELSEWHERE) < set(page)
    sections = [name for name in page if name not in ELSEWHERE] if sections is None else sections
    programs = [program for name in sections for program in programs_of(page[name])]
    program = "\n".join(["import reader", *programs])
    need(program)
    done = run_program(program, folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.proof  # tests in tests/cli run `read`, `export-index` and `cache`
def test_the_commands_of_the_page_on_reading_run(need, run):
    need("set")
    for command in commands_of(read_page("docs/reading.md")):
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.proof  # tests in tests/inference/export run the commands
def test_the_commands_and_programs_of_the_page_on_exporting_run(need, folder, run):
    text = read_page("docs/export.md")
    need("set")
    shutil.rmtree(folder / "run", ignore_errors=True)  # of a section of README
    assert run(*shlex.split("shardmill train set --epochs 1 --run-dir run")).returncode == 0
    for command in commands_of(text):
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    for program in programs_of(text):
        done = run_program(program, folder)
        assert done.returncode == 0, done.stderr


def test_make_knows_its_targets(repository):
    for target in ("demo", "test", "proofs", "bench", "docs", "interop", "format", "clean", "help"):
        subprocess.run(
            ["make", "--dry-run", target], cwd=repository, capture_output=True, check=True
        )
