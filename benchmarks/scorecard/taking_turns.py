"""Runs the subjects of a row in turns, keeps every run, and says what they come to."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.measure import HERE, Run, in_turns, machine
from benchmarks.peers import pinned
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject

_CHANGED = ", changed"  # behind a commit, if files were changed since
# Not the pages and results, which a row before this one may have written.
_MEASURED = ("*.py", "*.toml", "*.txt")
_OWN = ("apache-beam", "numpy", "opencv-python-headless", "pyarrow", "simplejpeg", "tensorflow")


def measure_row(row: Row, bench: Bench, turns: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """The results of a row, as they are in results/scorecard.json.

    Every run is kept in the scratch folder as soon as it is done. A row that was interrupted goes
    on where it was, if the commit is the same.

    Args:
        row: The row.
        bench: Where it is measured.
        turns: Runs of each subject.
        only: Names of subjects; all where empty.
    """
    turns = min(turns, row.turns)
    subjects = [one for one in row.subjects(bench) if not only or one.name in only]
    size = "small" if bench.is_small else "whole"
    kept = _KeptRuns(bench.work / "scorecard" / f"{row.name}, {size}.json")
    there = {one.name: one for one in subjects if bench.has(one.environment)}
    for one in subjects:
        if one.name not in there:
            print(f"{row.name}: without {one.name}, which 'make peers' installs", flush=True)
    failed: dict[str, str] = {}
    for turn, name in in_turns(list(there), turns):
        if name in failed or len(kept.of(name)) > turn:
            continue
        try:
            kept.add(name, there[name].run())
        except SystemExit as error:
            failed[name] = str(error)
            print(error, flush=True)
            continue
        own = kept.of(name)[-1]
        print(f"{row.name} {turn + 1}/{turns}  {name}: {_words(row.columns, own)}", flush=True)
    about = _about(
        there.values(), min([turns, *(len(kept.of(n)) for n in there if n not in failed)])
    )
    runs = {name: kept.of(name)[:turns] for name in there if name not in failed}
    result = about | {"subjects": _summary(row, there, runs), "failed": failed}
    return _without_places(result, bench)


def _without_places(result: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """The results without the folders of this machine, which commands and errors name."""
    text = json.dumps(result)
    for place, word in ((bench.work, "WORK"), (bench.peers, "PEERS"), (HERE.parent, "REPOSITORY")):
        text = text.replace(json.dumps(str(place))[1:-1], word)
    cleaned: dict[str, Any] = json.loads(text)
    return cleaned


class _KeptRuns:
    """The runs of a row so far, of this commit; of changed files those of this process alone."""

    def __init__(self, file: Path) -> None:
        self._file, self._commit = file, commit()
        self._runs: dict[str, list[dict[str, Any]]] = {}
        if file.exists():
            kept = json.loads(file.read_text())
            if kept["commit"] == self._commit and not self._commit.endswith(_CHANGED):
                self._runs = kept["runs"]

    def of(self, name: str) -> list[Run]:
        return [Run(**one) for one in self._runs.get(name, [])]

    def add(self, name: str, run: Run) -> None:
        self._runs.setdefault(name, []).append(dataclasses.asdict(run))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps({"commit": self._commit, "runs": self._runs}))
        draft.rename(self._file)


def commit() -> str:
    """The commit of this repository, with `_CHANGED` behind it if what is measured was changed."""
    git = ["git", "-C", str(HERE.parent)]
    described = _printed([*git, "rev-parse", "--short", "HEAD"])
    is_changed = _printed([*git, "status", "--porcelain", "--", *_MEASURED])
    return described + (_CHANGED if is_changed else "")


def _printed(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _about(subjects: Any, turns: int) -> dict[str, Any]:
    versions = {name: metadata.version(name) for name in _OWN}
    for environment in sorted({one.environment for one in subjects if one.environment}):
        versions |= pinned(environment)
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "command": f"python -m benchmarks.scorecard {shlex.join(sys.argv[1:])}".strip(),
        "machine": machine(),
        "versions": versions,
        "turns": turns,
    }


def _summary(
    row: Row, subjects: Mapping[str, Subject], runs: Mapping[str, list[Run]]
) -> dict[str, Any]:
    """Each subject's figures: median, least and greatest, and the ratio to the first of ours."""
    base = next((runs[name] for name in runs if subjects[name].of == OURS), None)
    summary = {}
    for name, own in runs.items():
        figures = {}
        for column in row.columns:
            values = [column.value(one) for one in own]
            if any(isinstance(value, str) for value in values):
                figures[column.name] = {"median": " or ".join(sorted({str(v) for v in values}))}
                continue
            figures[column.name] = {
                "median": round(statistics.median(values), 4),
                "low": round(min(values), 4),
                "high": round(max(values), 4),
            }
            if base is not None:
                pairs = zip(values, map(column.value, base), strict=False)
                ratios = [value / other for value, other in pairs if other]
                if ratios:
                    figures[column.name]["ratio"] = round(statistics.median(ratios), 4)
        summary[name] = {
            "of": subjects[name].of,
            "follows": subjects[name].follows,
            "figures": figures,
            "runs": [dataclasses.asdict(one) for one in own],
        }
    return summary


def _words(columns: Sequence[Column], run: Run) -> str:
    return ", ".join(f"{written(column, column.value(run))} {column.name}" for column in columns)


def written(column: Column, value: float | str) -> str:
    """A figure as people read it."""
    return value if isinstance(value, str) else f"{value:,.{column.digits}f}"
