"""Concatenation: documents in order, cut at the length of a sequence."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.text.packings.base import Piece


def concat(documents: Iterator[Piece], length: int) -> Iterator[list[Piece]]:
    """The pieces of every sequence; only the last sequence is padded."""
    pieces: list[Piece] = []
    room = length
    for document in documents:
        start, total = 0, len(document.tokens)
        while start < total:
            end = min(start + room, total)
            pieces.append(document.cut(start, end))
            room -= end - start
            start = end
            if not room:
                yield pieces
                pieces, room = [], length
    if pieces:
        yield pieces
