"""The commands of docs/search.md run, with the space that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_commands import commands_of

PAGE = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
SPACES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_space_of_the_page_is_one(tmp_path):
    from search.proposals import num_trials
    from search.space_file import read_space

    (text,) = SPACES
    path = tmp_path / "space.yaml"
    path.write_text(text)
    assert num_trials(read_space(str(path)), "grid", 0) == 21


@pytest.mark.proof
def test_the_commands_of_the_page_run(folder, run):
    (folder / "space.yaml").write_text(SPACES[0])
    for command in commands_of(PAGE):
        done = run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    for name, count in (("space-search", 5), ("grid", 21)):
        assert len(list((folder / name / "trials").iterdir())) == count
        assert (folder / name / "search.png").exists()
