"""The corpus of the text benchmarks: documents of real sentences, with some duplicates."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import REPOSITORY

# 1,000 film reviews if the developers' corpora are next to the repository, else the samples.
_REVIEWS = REPOSITORY.parent / "shared" / "corpora" / "text-movie-reviews"
_SAMPLES = REPOSITORY / "samples" / "banking"
_LINES = (12, 60)  # of a document
_EXACT, _NEAR = 0.02, 0.05  # shares of documents that repeat an earlier one
_CHANGED_WORDS = 0.01  # of a near duplicate


def documents(count: int, seed: int = 0) -> Iterator[str]:
    """Yields documents of sampled sentences; a share of them are duplicates of earlier ones."""
    generator, lines = random.Random(seed), _sentences()
    recent: list[str] = []
    for _ in range(count):
        drawn = generator.random()
        if recent and drawn < _EXACT:
            yield generator.choice(recent)
            continue
        if recent and drawn < _EXACT + _NEAR:
            yield _changed(generator.choice(recent), generator)
            continue
        text = "\n".join(generator.choices(lines, k=generator.randint(*_LINES)))
        recent = [*recent[-999:], text]
        yield text


def _sentences() -> list[str]:
    """Returns the distinct lines of the corpus, sorted."""
    lines: set[str] = set()
    if _REVIEWS.is_dir():
        for path in sorted(_REVIEWS.glob("*/*.txt")):
            lines |= set(path.read_text(errors="replace").splitlines())
    else:
        for path in sorted(_SAMPLES.glob("*.csv")):
            with path.open(newline="", errors="replace") as file:
                lines |= {row[0] for row in csv.reader(file)}
    return sorted(line.strip() for line in lines if len(line) > 20)


def _changed(text: str, generator: random.Random) -> str:
    words = text.split(" ")
    for _ in range(max(1, round(len(words) * _CHANGED_WORDS))):
        words[generator.randrange(len(words))] = f"word{generator.randrange(10**6)}"
    return " ".join(words)


def make_jsonl(work: Path, count: int) -> Path:
    """Returns one JSON Lines file of `count` documents, made once and reused."""
    path = work / "texts" / f"{count}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            for number, text in enumerate(documents(count)):
                file.write(json.dumps({"text": text, "id": number}) + "\n")
        draft.rename(path)
    return path
