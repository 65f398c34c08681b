"""How long the ways through the code are: `python -m benchmarks.ways [--json]`.

Whole jobs of two images and of two documents, and the first batch of their sets, run in this
process with `sys.setprofile`. Counted are the distinct files of the product whose functions are
called, the distinct functions, and the calls from one file into another. What runs only while a
module is imported does not count, nor what threads do that Python did not start.

Also printed are the lines of code of each package, without blanks, comments and docstrings, and the
names that several classes of the product have.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import json
import shutil
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.house.words import breaks_in, product_packages

_REPOSITORY = Path(__file__).resolve().parents[1]
_SAMPLES = _REPOSITORY / "samples" / "clothing"
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # frames in 3.11 alone
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
# Steps of beam_jobs.pipeline, by the name of their stage.
_STAGES = {
    "stage": "StageUnits",
    "plan": "PlanShards",
    "shard": "WriteShards",
    "commit": "Commit",
}


class Way(NamedTuple):
    """The length of one way through the product.

    Attributes:
        files: Distinct files whose functions were called.
        functions: Distinct functions.
        changes: Calls from one file into another.
    """

    files: int
    functions: int
    changes: int


class Trace:
    """The calls of functions of the product by all threads of Python, while it is active.

    Args:
        stages: Name by the code of the function that a stage begins and ends with.
    """

    def __init__(self, stages: dict[CodeType, str]) -> None:
        self._stages = stages
        self._product = tuple(f"{_REPOSITORY / name}/" for name in product_packages())
        self._local = threading.local()
        self.functions: dict[str, set[tuple[str, int]]] = {}
        self.changes: Counter[str] = Counter()

    @contextlib.contextmanager
    def active(self, name: str) -> Iterator[None]:
        """Traces what happens within this context as the way of this name."""
        self._name = name
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def way(self, name: str) -> Way:
        """The length of a way: "NAME", or of one stage of a job, "NAME, STAGE"."""
        functions = self.functions.get(name, set())
        return Way(len({file for file, _ in functions}), len(functions), self.changes[name])

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(
            self._product
        ):
            return
        calls: list[CodeType] = self._local.__dict__.setdefault("calls", [])
        if event == "return":
            if calls:
                calls.pop()
            return
        calls.append(frame.f_code)
        # The code of a module or of a class body runs on import.
        if any(not code.co_flags & inspect.CO_OPTIMIZED for code in calls):
            return
        stages = (self._stages[code] for code in calls if code in self._stages)
        caller = calls[-2].co_filename if len(calls) > 1 else frame.f_code.co_filename
        for name in (self._name, *(f"{self._name}, {stage}" for stage in stages)):
            self._count(name, frame.f_code, caller)

    def _count(self, name: str, code: CodeType, caller: str) -> None:
        self.changes[name] += code.co_filename != caller
        if code.co_name not in _COMPREHENSIONS:
            called = (code.co_filename, code.co_firstlineno)
            self.functions.setdefault(name, set()).add(called)


def measured_ways() -> dict[str, Way]:
    """Runs the jobs and reads their sets; the length of every way by its name."""
    # Of these, only what is called counts, not their import.
    import reader
    from beam_jobs import ImageOptions, TextOptions, pipeline, preprocess

    trace = Trace(
        {getattr(pipeline, step).process.__code__: name for name, step in _STAGES.items()}
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        common: dict[str, Any] = {"workers": 1, "no_report": True}  # a report has ways of its own
        jobs = {
            "images": ImageOptions((_two_images(folder),), str(folder / "images"), **common),
            "text": TextOptions((_two_lines(folder),), str(folder / "text"), **common),
        }
        for kind, options in jobs.items():
            with trace.active(f"{kind} job"):
                preprocess(options)
        for kind, options in jobs.items():
            with trace.active(f"{kind} first batch"):
                # To the end of its two batches, so that no thread works on in the next trace.
                list(_load(reader.load, kind, options.out).dataset)
    names = [f"{kind} job{stage}" for kind in jobs for stage in ("", *(f", {s}" for s in _STAGES))]
    return {name: trace.way(name) for name in (*names, *(f"{kind} first batch" for kind in jobs))}


def _load(load: Callable[..., Any], kind: str, directory: str) -> Any:
    if kind == "images":
        return load(directory, batch_size=1, epochs=1, image_size=64)
    return load(directory, batch_size=1, epochs=1)


def _two_images(folder: Path) -> str:
    """Class folders with an image each."""
    for source in [next(iter(sorted(one.glob("*.jpg")))) for one in _class_folders()[:2]]:
        target = folder / "photographs" / source.parent.name / source.name
        target.parent.mkdir(parents=True)
        shutil.copyfile(source, target)
    return str(folder / "photographs")


def _class_folders() -> list[Path]:
    return sorted({path.parent for path in _SAMPLES.rglob("*-*-*-*-*.jpg") if " " not in path.name})


def _two_lines(folder: Path) -> str:
    """A JSON Lines file of two documents."""
    texts = "The cat sat on the mat, and looked at me.", "A dog ran down the long road to the sea."
    rows = [{"text": text, "label": str(number)} for number, text in enumerate(texts)]
    path = folder / "documents.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def lines_of_code(source: str) -> int:
    """Lines with code: without blanks, comments and docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*_LAYOUT, tokenize.ENDMARKER):
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def main() -> None:
    """Prints the ways, the lines of the packages, and the names of several classes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ways",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    product = product_packages()
    files = {name: sorted((_REPOSITORY / name).rglob("*.py")) for name in product}
    lines = {
        name: sum(lines_of_code(path.read_text(encoding="utf-8")) for path in paths)
        for name, paths in files.items()
    }
    every_file = [path for paths in files.values() for path in paths]
    breaks = breaks_in(every_file, product)
    twins = Counter(one.text for one in breaks if one.rule == "twin-classes")
    ways = measured_ways()
    if arguments.json:
        every_way = {name: way._asdict() for name, way in ways.items()}
        print(json.dumps({"ways": every_way, "lines": lines, "twin_classes": dict(twins)}))
        return
    print(f"{'way':<24}{'files':>7}{'functions':>11}{'changes of file':>17}")
    for name, way in ways.items():
        print(f"{name:<24}{way.files:>7}{way.functions:>11}{way.changes:>17,}")
    print(f"\n{'package':<24}{'files':>7}{'lines of code':>15}")
    for name, count in lines.items():
        print(f"{name:<24}{len(files[name]):>7}{count:>15,}")
    print(f"{'all':<24}{len(every_file):>7}{sum(lines.values()):>15,}")
    print(f"\nnames of several classes: {len(twins)}\n{', '.join(sorted(twins))}")


if __name__ == "__main__":
    main()
