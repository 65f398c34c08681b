"""The tutorials: their commands run, and what they print of a set is on the page."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_commands import commands_of, read_page

PAGES = ("docs/tutorials/images.md", "docs/tutorials/text.md")
# Lines of an output that are equal in every run: the ledger and the root hash.
STABLE = re.compile(
    r"^(?:(?:read|  kept|  duplicates|  filtered|  quarantined) +[\d,]+|root hash ).*$", re.M
)


@pytest.fixture(scope="module")
def generator(load_script):
    return load_script("docs/make_tutorials.py")


def test_outputs_replace_the_lines_below_a_command(generator):
    page = "a\n```console\n$ shardmill x 'y z'\nold\n$ shardmill w\n```\n```sh\n$ no\n```\n"
    outputs = {"y z": "one\ntwo  \n", "w": "\n" * 2 + "line\n" * 30}
    filled = generator.filled_in(page, lambda command: outputs[command[-1]])
    shown = "line\n" * 24 + "...\n"
    head = "a\n```console\n$ shardmill x 'y z'\none\ntwo\n$ shardmill w\n"
    assert filled == f"{head}{shown}```\n```sh\n$ no\n```\n"


@pytest.mark.proof
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_tutorial_print_the_ledgers_on_the_page(page, run):
    text = read_page(page)
    for command in commands_of(text):
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        for line in STABLE.findall(done.stdout):
            assert re.search(re.escape(line.rstrip()), text), command


def test_every_picture_is_there_and_small(repository):
    folder = repository / "docs" / "tutorials"
    for page in PAGES:
        for name in re.findall(r"\]\(([\w-]+\.(?:png|html))\)", read_page(page)):
            assert (folder / name).stat().st_size < 300_000
