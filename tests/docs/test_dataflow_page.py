"""docs/dataflow.md: every command is run by a test (tests/engines) or says that it needs Google."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from beam_jobs.options import OPTIONS
from foundation.options import declared, flag_of


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "dataflow.md").read_text(encoding="utf-8")


def test_every_block_runs_or_says_what_it_needs(page):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in blocks} == {"sh", "console"}
    for kind, text in blocks:
        assert text.startswith("# needs Google" if kind == "sh" else "$ "), text


def test_the_commands_that_no_test_can_run_are_valid_shell(page):
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    for text in blocks:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert not done.returncode, f"{text}\n{done.stderr}"


def test_the_flex_template_is_started_with_parameters_that_it_has(page, repository):
    metadata = (repository / "samples" / "dataflow" / "flex-template.json").read_text()
    (given,) = re.findall(r"--parameters=(job=\S+)", page)
    for name in (pair.partition("=")[0] for pair in given.split(",")):
        assert f'"name": "{name}"' in metadata or name == "sdk_container_image"


def test_the_options_of_shardmill_on_the_page_exist(page):
    flags = {flag_of(field.name) for kind in OPTIONS.values() for field in declared(kind)}
    commands = re.findall(r"shardmill preprocess ((?:.*\\\n)*.*)", page)
    assert len(commands) >= 4
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        own = words[: words.index("--")]
        assert {word for word in own if word.startswith("--")} <= flags | {"--out"}
