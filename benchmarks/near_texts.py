"""Recall, precision and scale of near duplicates among texts.

`python -m benchmarks.near_texts SRC...`: an altered copy of every document of SRC (folders of .txt
and .jsonl) is planted, with a similarity between 0.5 and 1. The truth is the Jaccard similarity of
the sets of word 5-grams, computed by separate code on Python sets. Scale is measured on sidecars of
synthetic documents (`synthetic_shingles`). Results go to benchmarks/results/near_texts.json.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from beam_jobs.dedup.text.candidates import choose_bands
from beam_jobs.dedup.text.near_duplicates import Documents, NearPairs, near_pairs
from beam_jobs.dedup.text.normalization import fingerprints
from beam_jobs.dedup.text.shingles import Shingles, shingles
from beam_jobs.dedup.text.signatures import signatures
from beam_jobs.dedup.union_find import components
from benchmarks.measure import machine
from benchmarks.planted_texts import altered, likeness, read_texts, words_of
from benchmarks.synthetic_shingles import make_sidecars

_HERE = Path(__file__).parent
_SEED = 7
_PACKAGES = ("numpy", "pyarrow", "xxhash")
_THRESHOLD = 0.8
_BINS = (0.5, 0.7, 0.78, 0.8, 0.82, 0.85, 0.9, 0.95, 1.0001)
_BATCH = 2000  # documents


def main() -> None:
    """Runs everything, prints it, writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path, help="folders of documents")
    parser.add_argument("--scale", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    results = {
        "command": "python -m benchmarks.near_texts SRC... --scale "
        + " ".join(map(str, arguments.scale)),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "threshold": _THRESHOLD,
        "bands": choose_bands(_THRESHOLD)._asdict(),
        "corpora": {source.name: _corpus(read_texts(source)) for source in arguments.sources},
        "scale": [_scale(arguments.work, count) for count in arguments.scale],
    }
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    print(text)
    (_HERE / "results" / "near_texts.json").write_text(text)


def _corpus(texts: list[str]) -> dict[str, object]:
    generator = np.random.default_rng(_SEED)
    vocabulary = sorted({word for text in texts[::10] for word in words_of(text)})
    copies = [altered(text, generator.uniform(0.5, 1), vocabulary, generator) for text in texts]
    truth = np.array([likeness(*pair) for pair in zip(texts, copies, strict=True)])
    _documents(texts[:_BATCH])  # warm
    documents, seconds = _documents([*texts, *copies])
    found = near_pairs(documents, _THRESHOLD, threads=2)
    roots = components(2 * len(texts), found.pairs).reshape(2, -1)
    together = roots[0] == roots[1]
    every = [*texts, *copies]
    exact = np.array([likeness(every[one], every[two]) for one, two in found.pairs.tolist()])
    return {
        "documents": len(every),
        "mean_words": round(float(np.mean([len(text.split()) for text in texts]))),
        "planted_at_threshold": int((truth >= _THRESHOLD).sum()),
        "recall": round(float(together[truth >= _THRESHOLD].mean()), 5),
        "pairs": len(exact),
        "precision": round(float((exact >= _THRESHOLD).mean()), 5),
        "found_by_likeness": _by_likeness(truth, together),
        **_rates(texts, documents, found, seconds),
    }


def _by_likeness(truth: np.ndarray, together: np.ndarray) -> dict[str, list[float]]:
    """Planted pairs by range of similarity, and the share in one cluster."""
    found = {}
    for low, high in itertools.pairwise(_BINS):
        inside = (truth >= low) & (truth < high)
        share = float(together[inside].mean()) if inside.any() else 0.0
        found[f"{low:.2f} to {min(high, 1):.2f}"] = [int(inside.sum()), round(share, 4)]
    return found


def _documents(texts: list[str]) -> tuple[Documents, dict[str, float]]:
    """The input of planning, computed in batches as by staging; CPU seconds by kernel."""
    seconds = dict.fromkeys(("fingerprints", "shingles", "signatures"), 0.0)
    heads, hashes, places, sizes = [], [], [], []
    for first in range(0, len(texts), _BATCH):
        column = pa.array(texts[first : first + _BATCH], pa.large_string())
        times = [time.process_time()]
        heads += [int.from_bytes(one[:8], "little") for one in fingerprints(column).to_pylist()]
        times.append(time.process_time())
        sets = shingles(column)
        times.append(time.process_time())
        places.append(signatures(sets))
        times.append(time.process_time())
        hashes.append(sets.hashes)
        sizes.append(np.diff(sets.begins))
        for name, spent in zip(seconds, np.diff(times), strict=True):
            seconds[name] += float(spent)
    lengths, all_hashes = np.concatenate(sizes), np.concatenate(hashes)
    begins = np.concatenate(([0], np.cumsum(lengths)))

    def fetch(rows: np.ndarray) -> Shingles:
        parts = [all_hashes[begins[row] : begins[row + 1]] for row in rows.tolist()]
        return Shingles(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))

    return Documents(np.array(heads, np.uint64), lengths, lambda: places, fetch), seconds


def _rates(
    texts: list[str], documents: Documents, found: NearPairs, seconds: dict[str, float]
) -> dict[str, object]:
    size = 2 * sum(len(text.encode()) for text in texts) / 1e6
    begun = time.perf_counter()
    near_pairs(documents, _THRESHOLD, threads=2)
    return {
        "megabytes": round(size, 1),
        "megabytes_per_processor_second": {
            name: round(size / spent) for name, spent in seconds.items()
        },
        "cluster_seconds": round(time.perf_counter() - begun, 2),
    }


def _scale(work: Path, count: int) -> dict[str, object]:
    folder = make_sidecars(work / f"shingles-{count}", count)
    command = [sys.executable, "-m", "benchmarks.subjects.near_text_clusters", str(folder), "2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
