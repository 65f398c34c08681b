"""Commands and programs in documents run."""

from __future__ import annotations

import re
import subprocess
import sys


def test_the_commands_of_the_readme_run_in_order(run, repository):
    """In one test, since they build on each other; the Python of the README comes last."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        done = run("sh", "-c", command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_the_programs_of_the_page_on_reading_run(run, folder, repository):
    """As one, on sets that are built like those of the README."""
    for name in ("set", "clean-set"):
        if not (folder / name).exists():
            command = ["shardmill", "preprocess", "images", "samples/clothing", "--out", name]
            done = run(*command, "--resize", "shorter:64", "--no-report")
            assert done.returncode == 0, done.stderr
    text = (repository / "docs" / "reading.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_make_knows_its_targets(repository):
    for target in ("demo", "test", "proofs", "bench", "format", "clean", "help"):
        subprocess.run(
            ["make", "--dry-run", target], cwd=repository, capture_output=True, check=True
        )
