"""Recall and precision of near duplicates among texts: `python -m benchmarks.near_texts [SRC...]`.

An altered copy of every document of SRC (folders of .txt and .jsonl) is planted, with a similarity
between 0.5 and 1. The truth is the Jaccard similarity of the sets of word 5-grams, computed by
separate code on Python sets. The scorecard has the throughput.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa

from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.text.near_duplicates import near_duplicates
from benchmarks.measure import parser, write
from benchmarks.table_sidecars import sidecars_of_texts
from benchmarks.text_corpus import documents

_SEED = 7
_THRESHOLD = 0.8
_RANGES = (0.5, 0.7, 0.78, 0.8, 0.82, 0.85, 0.9, 0.95, 1.0001)
_SHINGLE_WORDS = 5
_WORD = re.compile(r"[^\W_]+")


def main() -> None:
    """Finds the planted copies, writes the results."""
    arguments = parser("near_texts", __doc__, turns=False)
    arguments.add_argument("sources", nargs="*", type=Path, metavar="SRC")
    chosen = arguments.parse_args()
    corpora = {source.name: _read_texts(source) for source in chosen.sources}
    results = {}
    for name, texts in (corpora or {"sentences": [*documents(2000)]}).items():
        results[name] = _found(texts)
        print(name, json.dumps(results[name], indent=1))
    write("near_texts", {"threshold": _THRESHOLD, "corpora": results})


def _read_texts(folder: Path) -> list[str]:
    """Every .txt of a folder as a document, and every row of its JSONL: its texts, joined."""
    texts = [file.read_text(errors="replace") for file in sorted(folder.rglob("*.txt"))]
    for file in sorted(folder.rglob("*.jsonl")):
        for line in file.read_text().splitlines():
            values = [value for value in json.loads(line).values() if isinstance(value, str)]
            texts.append("\n".join(values))
    return texts


def _found(texts: list[str]) -> dict[str, object]:
    """Recall of planted copies, and precision of all pairs."""
    generator = np.random.default_rng(_SEED)
    vocabulary = sorted({word for text in texts[::10] for word in _words_of(text)})
    copies = [_altered(text, generator.uniform(0.5, 1), vocabulary, generator) for text in texts]
    truth = np.array([_similarity(*pair) for pair in zip(texts, copies, strict=True)])
    every = [*texts, *copies]
    with tempfile.TemporaryDirectory() as folder:
        sidecars = sidecars_of_texts(pa.array(every, pa.large_string()), Path(folder))
        pairs = near_duplicates(sidecars, _THRESHOLD, 2).pairs
    roots = components(len(every), pairs).reshape(2, -1)
    together = roots[0] == roots[1]
    exact = np.array([_similarity(every[one], every[two]) for one, two in pairs.tolist()])
    return {
        "documents": len(every),
        "planted_at_threshold": int((truth >= _THRESHOLD).sum()),
        "recall": round(float(together[truth >= _THRESHOLD].mean()), 5),
        "pairs": len(exact),
        "precision": round(float((exact >= _THRESHOLD).mean()), 5),
        "planted_and_found_by_similarity": {
            f"{low:.2f} to {min(high, 1):.2f}": [int(inside.sum()), int(together[inside].sum())]
            for low, high in itertools.pairwise(_RANGES)
            for inside in [(truth >= low) & (truth < high)]
        },
    }


def _words_of(text: str) -> list[str]:
    """Runs of letters and digits in lower case, without shardmill's code."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def _similarity(one: str, other: str) -> float:
    """Jaccard similarity of the sets of word 5-grams."""
    first, second = map(_five_grams, (one, other))
    return len(first & second) / len(first | second)


def _five_grams(text: str) -> set[tuple[str, ...]]:
    words = _words_of(text)
    last = max(1, len(words) - _SHINGLE_WORDS + 1)
    return {tuple(words[at : at + _SHINGLE_WORDS]) for at in range(last)}


def _altered(text: str, aim: float, vocabulary: list[str], generator: np.random.Generator) -> str:
    """A copy with words replaced, removed and inserted until the similarity is about `aim`.

    A replaced word far from others removes 5 of n shingles and adds 5 others.
    """
    tokens = text.split(" ")
    aimed = len(tokens) * (1 - aim) / (_SHINGLE_WORDS * (1 + aim))
    edits = min(int(aimed + generator.random()), len(tokens))
    for place in sorted(generator.choice(len(tokens), edits, False), reverse=True):
        kind = generator.integers(3)
        new = vocabulary[generator.integers(len(vocabulary))]
        if kind == 0:
            tokens[place] = new
        elif kind == 1:
            del tokens[place]
        else:
            tokens.insert(place, new)
    if generator.random() < 0.5:  # which similarity ignores
        tokens = [token.upper() if generator.random() < 0.1 else token for token in tokens]
    return " ".join(tokens)


if __name__ == "__main__":
    main()
