"""Two versions of this repository: `python -m benchmarks.versions --before DIR [--after DIR]`.

DIR are git worktrees. Both versions preprocess the same images and the same documents, and read the
same shard set, which the version before built, in turns. Ratios are to the version before.

    git worktree add ../before COMMIT
    python -m benchmarks.versions --before ../before
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.corpus import make_corpus
from benchmarks.measure import HERE, Subjects, parser, take_turns, write
from benchmarks.scorecard.rows.preprocess_images import build_images
from benchmarks.scorecard.rows.preprocess_texts import build_texts
from benchmarks.scorecard.rows.read_images import read
from benchmarks.text_corpus import make_jsonl

_TASKS = ("images", "texts", "reading")


def main() -> None:
    """Takes the turns, prints tables, writes the results."""
    arguments = parser("versions", __doc__)
    arguments.add_argument("--before", type=Path, required=True, metavar="DIR", help="a worktree")
    arguments.add_argument("--after", type=Path, default=HERE.parent, metavar="DIR", help="another")
    arguments.add_argument("--images", type=int, default=8400, help="images of the corpus")
    arguments.add_argument("--documents", type=int, default=60_000, help="documents of the corpus")
    arguments.add_argument("--seconds", type=float, default=8, help="of every run that reads")
    arguments.add_argument("--only", choices=_TASKS, action="append")
    chosen = arguments.parse_args()
    versions = {"before": chosen.before.resolve(), "after": chosen.after.resolve()}
    photos = make_corpus(chosen.work, chosen.images)
    results: dict[str, Any] = {name: _commit(path) for name, path in versions.items()}
    for task in chosen.only or _TASKS:
        out = chosen.work / "versions" / task
        subjects: Subjects
        if task == "images":
            subjects = {
                name: functools.partial(build_images, photos, out, "exact", path)
                for name, path in versions.items()
            }
        elif task == "texts":
            source = make_jsonl(chosen.work, chosen.documents)
            subjects = {
                name: functools.partial(build_texts, source, out, "default", "exact", path)
                for name, path in versions.items()
            }
        else:
            build_images(photos, out, "off", versions["before"])
            subjects = {
                name: functools.partial(read, out, chosen.seconds, path)
                for name, path in versions.items()
            }
        results[task] = take_turns(task, subjects, chosen.turns)
        hashes = {
            run["details"].get("root_hash")
            for name in versions
            for run in results[task][name]["runs"]
        }
        if len(hashes) > 1:
            raise SystemExit(f"The versions build different sets of {task}: {hashes}")
        write("versions", results)


def _commit(worktree: Path) -> str:
    """The commit of a worktree, with "changed" behind it if files were changed since."""
    command = ["git", "-C", str(worktree), "describe", "--always", "--dirty=, changed"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
