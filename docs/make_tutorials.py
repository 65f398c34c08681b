"""Runs the tutorials and writes what they print into them: `python docs/make_tutorials.py`.

Every command of a page runs in an empty folder, in the order of the page. Its standard output
replaces the lines below it, and pictures and pages of the run are copied to docs/tutorials.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
TUTORIALS = Path(__file__).parent / "tutorials"
# Page -> file of the run -> its name in docs/tutorials.
RESULTS = {
    "images": {
        "clothing-set/report.html": "images-report.html",
        "run/learning_curve.png": "images-learning-curve.png",
        "run/confusion_matrix.png": "images-confusion-matrix.png",
    },
    "text": {"questions-run/learning_curve.png": "text-learning-curve.png"},
}
_BLOCKS = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_SHOWN_LINES = 24  # of each output; a list of files goes on


def filled_in(page: str, output_of: Callable[[list[str]], str]) -> str:
    """Returns a page with the output of every command below it."""

    def block(match: re.Match[str]) -> str:
        lines = []
        for command in re.findall(r"^\$ (.+)$", match.group(), re.MULTILINE):
            shown = [line.rstrip() for line in output_of(shlex.split(command)).strip().splitlines()]
            dots = ["..."] if len(shown) > _SHOWN_LINES else []
            lines += [f"$ {command}", *shown[:_SHOWN_LINES], *dots]
        return "".join(f"{line}\n" for line in lines)

    return _BLOCKS.sub(block, page)


def main() -> None:
    """Runs all tutorials."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "100"}
    for name, results in RESULTS.items():
        page = TUTORIALS / f"{name}.md"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "samples").symlink_to(REPOSITORY / "samples")

            def output_of(command: list[str], folder: str = folder) -> str:
                print(*command, flush=True)
                done = subprocess.run(
                    [sys.executable, "-m", "cli.main", *command[1:]],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                return done.stdout.replace(f"{folder}/", "")

            page.write_text(filled_in(page.read_text("utf-8"), output_of), encoding="utf-8")
            for result, picture in results.items():
                shutil.copy(Path(folder) / result, TUTORIALS / picture)


if __name__ == "__main__":
    main()
