"""CPU time of a text job by stage: `python -m benchmarks.text_profile [--gigabytes 0.03]`.

One process and one worker run the whole job, so its CPU time is that of all stages.
The functions below are replaced by ones that count the CPU time of their thread, without that of
other counted functions that they call. Results go to benchmarks/results/text_profile.json, under
the name of --label.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib
import inspect
import json
import shutil
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from benchmarks.text_corpus import make_reviews

_HERE = Path(__file__).parent
# (module, function or method, what it does); generators are counted while they compute.
_STAGES = (
    ("beam_jobs.corpus.reading", "CorpusReader.read", "read: other"),
    ("beam_jobs.corpus.formats.lines", "LineFormat._lines", "read: split lines, parse JSON"),
    ("beam_jobs.stages.stage", "UnitAtWork.add", "stage: collect a batch"),
    ("beam_jobs.stages.stage", "UnitAtWork.flush", "stage: columns of the sidecar"),
    ("beam_jobs.stages.stage", "UnitAtWork.write_in_shuffle_order", "stage: sort and write"),
    ("beam_jobs.pipeline", "stage_unit", "stage: other"),
    ("beam_jobs.stages.stage", "encode_frames", "stage: encode Examples"),
    ("beam_jobs.record_types.text", "document_batch", "stage: columns of documents"),
    ("beam_jobs.record_types.text", "TextRecords.prepare_batch", "stage: texts as objects"),
    ("beam_jobs.record_types.text", "fingerprints", "kernel: fingerprints"),
    ("beam_jobs.stages.shard", "read_staged", "shard: read staged payload"),
    ("beam_jobs.pipeline", "write_shard", "shard: encode, hash, write"),
    ("beam_jobs.pipeline", "begin", "list"),
    ("beam_jobs.pipeline", "plan_shards", "plan"),
    ("beam_jobs.pipeline", "commit", "commit"),
)
_REST = "the launcher"


class CpuClock:
    """CPU nanoseconds by stage, each without those of the stages that it calls."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = defaultdict(int)
        self._local = threading.local()

    def counted(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose CPU time is added to a stage."""
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args: Any, **named: Any) -> Iterator[Any]:
                made = function(*args, **named)
                ended = object()
                while (one := self._run(stage, next, made, ended)) is not ended:
                    yield one

            return generate

        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            return self._run(stage, function, *args, **named)

        return run

    def _run(self, stage: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        inside = getattr(self._local, "inside", 0)
        self._local.inside = 0
        begun = time.thread_time_ns()
        try:
            return function(*args, **named)
        finally:
            spent = time.thread_time_ns() - begun
            self.spent[stage] += spent - self._local.inside
            self._local.inside = inside + spent


def main() -> None:
    """Profiles the job some times, prints the medians, and writes them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_profile", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.03)
    parser.add_argument("--chars", type=int, default=1600, help="of a document, about")
    parser.add_argument("--clean", default="default")
    parser.add_argument("--repeat", type=int, default=3, help="the median counts")
    parser.add_argument("--label", default="now", help="name of the result")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    source = make_reviews(arguments.work / "texts", arguments.gigabytes, arguments.chars)
    turns = []
    for _ in range(arguments.repeat):
        turns.append(_profiled(source, arguments.work / "out", arguments.clean))
    records = int(turns[0].pop("records"))
    for turn in turns[1:]:
        turn.pop("records")
    stages = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
    total = sum(stages.values())
    size = source.stat().st_size
    print(f"{records:,} documents, {size / 1e6:.0f} MB, --clean {arguments.clean}")
    for name, seconds in sorted(stages.items(), key=lambda one: -one[1]):
        each = seconds / records * 1e6
        print(f"{name:<36}{seconds:>8.2f} s{each:>9.1f} us a document{seconds / total:>7.1%}")
    print(f"{'total':<36}{total:>8.2f} s{total / records * 1e6:>9.1f} us a document")
    found = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "documents": records,
        "bytes": size,
        "clean": arguments.clean,
        "microseconds_per_document": {
            name: round(seconds / records * 1e6, 2) for name, seconds in stages.items()
        },
    }
    file = _HERE / "results" / "text_profile.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(before | {arguments.label: found}, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _profiled(source: Path, out: Path, clean: str) -> dict[str, float]:
    """CPU seconds by stage of one job, and the number of its records."""
    from beam_jobs.engine.logs import quiet_beam
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess
    from beam_jobs.text.cleaning import STEPS

    quiet_beam()
    clock, restored = CpuClock(), list[tuple[Any, str, Any]]()
    places = [(importlib.import_module(module), name, stage) for module, name, stage in _STAGES]
    places += [(step, "__call__", f"kernel: {name}") for name, step in STEPS.items()]
    for place, path, stage in places:
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, place)
        function = vars(owner)[name]
        restored.append((owner, name, function))
        setattr(owner, name, clock.counted(stage, function))
    shutil.rmtree(out, ignore_errors=True)
    options = TextOptions(
        (str(source),), str(out), clean=clean, no_labels=True, no_report=True, workers=1
    )
    begun = time.process_time_ns()
    try:
        report = preprocess(options)
    finally:
        spent = time.process_time_ns() - begun
        for owner, name, function in reversed(restored):
            setattr(owner, name, function)
    stages = {stage: clock.spent[stage] for _, _, stage in places if clock.spent[stage]}
    stages[_REST] = spent - sum(stages.values())
    seconds = {stage: one / 1e9 for stage, one in stages.items()}
    return {**seconds, "records": report.manifest.ledger.read}


if __name__ == "__main__":
    main()
