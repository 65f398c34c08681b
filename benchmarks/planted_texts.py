"""Real documents with altered copies of known similarity."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import numpy as np

SHINGLE_WORDS = 5
_WORD = re.compile(r"[^\W_]+")


def read_texts(folder: Path) -> list[str]:
    """Every .txt below a folder as a document, and every row of its JSONL: its texts, joined."""
    texts = [file.read_text(errors="replace") for file in sorted(folder.rglob("*.txt"))]
    for file in sorted(folder.rglob("*.jsonl")):
        for line in file.read_text().splitlines():
            values = [value for value in json.loads(line).values() if isinstance(value, str)]
            texts.append("\n".join(values))
    return texts


def words_of(text: str) -> list[str]:
    """Runs of letters and digits in lower case, without shardmill's code."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def five_grams(text: str) -> set[tuple[str, ...]]:
    """The set of word 5-grams."""
    words = words_of(text)
    return {
        tuple(words[at : at + SHINGLE_WORDS])
        for at in range(max(1, len(words) - SHINGLE_WORDS + 1))
    }


def likeness(one: str, other: str) -> float:
    """Jaccard similarity of the sets of word 5-grams."""
    first, second = five_grams(one), five_grams(other)
    return len(first & second) / len(first | second)


def altered(text: str, aim: float, vocabulary: list[str], generator: np.random.Generator) -> str:
    """A copy with words replaced, removed and inserted until the similarity is about `aim`.

    A replaced word far from others removes 5 of n shingles and adds 5 others.
    """
    tokens = text.split(" ")
    aimed = len(tokens) * (1 - aim) / (SHINGLE_WORDS * (1 + aim))
    edits = int(aimed + generator.random())
    for place in sorted(
        generator.choice(len(tokens), min(edits, len(tokens)), False), reverse=True
    ):
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
