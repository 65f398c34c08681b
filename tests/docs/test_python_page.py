"""The programs of docs/python.md run, one after the other."""

from __future__ import annotations

import re
import sys

import pytest


@pytest.mark.proof
def test_the_programs_run(run, folder, repository):
    text = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) >= 4
    done = run(sys.executable, "-c", "".join(programs))
    assert done.returncode == 0, done.stderr
    assert "commit: " in done.stdout and "built " in done.stdout
    assert (folder / "pipeline-set" / "manifest.json").exists()
