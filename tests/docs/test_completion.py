"""The lines of docs/command-line.md that set up shell completion work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.docs.test_commands import read_page

PAGE = read_page("docs/command-line.md")
LINES = re.findall(r"^.*_SHARDMILL_COMPLETE=(\w+)_source shardmill.*$", PAGE, re.MULTILINE)
# From the lines of the page to what the shell then says about the command.
ASKED = {
    "bash": "complete -p shardmill",
    "zsh": "print $_comps[shardmill]",
    "fish": "complete --command shardmill",
}


@pytest.fixture
def environment(folder, repository):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.environ.get("PYTHONPATH", str(repository))}


def test_the_page_has_the_usual_shells():
    assert LINES == list(ASKED)


@pytest.mark.parametrize("shell", ASKED)
def test_the_line_of_a_shell_sets_up_completion(shell, environment):
    (line,) = re.findall(rf"^.*_SHARDMILL_COMPLETE={shell}_source.*$", PAGE, re.MULTILINE)
    if shutil.which(shell) is None:  # what the line evaluates, at least
        line, shell, asked = f"_SHARDMILL_COMPLETE={shell}_source shardmill", "bash", "true"
    else:
        asked = ASKED[shell]
    begin = "autoload -Uz compinit; compinit -u; " if shell == "zsh" else ""
    done = subprocess.run(
        [shell, "-c", f"{begin}{line}\n{asked}"],
        env=environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "_shardmill_completion" in done.stdout and not done.stderr


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("pre", "plain,preprocess"),
        ("preprocess images --enc", "plain,--encoding"),
        ("preprocess images --encoding w", "plain,webp"),
        ("preprocess images photos --out ph", "file,ph"),
        ("preprocess text --tokenizer ph", "file,ph"),
        ("train ph", "file,ph"),
    ],
)
def test_commands_flags_choices_and_paths_are_completed(shardmill, monkeypatch, typed, completed):
    words = ["shardmill", *typed.split()]
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_SHARDMILL_COMPLETE", "bash_complete")
    done = shardmill()
    assert done.returncode == 0 and completed in done.stdout.splitlines()
