"""The beginning of every document is a sequence."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.text.packings.base import Piece


def toy(documents: Iterator[Piece], length: int) -> Iterator[list[Piece]]:
    for document in documents:
        yield [document.cut(0, min(length, len(document.tokens)))]
