"""Best fit: no document that fits into a sequence is cut.

Best-fit decreasing, as in Ding et al. 2024, "Fewer Truncations Improve Language Modeling"
(arXiv:2404.10830, section 3): documents longer than a sequence are cut into whole sequences and a
rest; documents and rests, the longest first, go to the sequence with the least room that suffices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from beam_jobs.text.packings.base import Piece

# Tokens that are packed at a time. A larger window saves little: only a few sequences of each
# window are not full.
_WINDOW_TOKENS = 4 << 20  # 16 MiB of ids
_WINDOW_SEQUENCES = 16  # at least, where sequences are very long


def best_fit(
    documents: Iterator[Piece], length: int, window_tokens: int = _WINDOW_TOKENS
) -> Iterator[list[Piece]]:
    """The pieces of every sequence; a sequence is padded where nothing fits."""
    window_tokens = max(window_tokens, _WINDOW_SEQUENCES * length)
    window: list[Piece] = []
    held = 0
    for document in documents:
        window.append(document)
        held += len(document.tokens)
        if held >= window_tokens:
            yield from _pack(window, length)
            window, held = [], 0
    yield from _pack(window, length)


def _pack(documents: list[Piece], length: int) -> list[list[Piece]]:
    pieces = [
        document.cut(start, start + length)
        for document in documents
        for start in range(0, len(document.tokens), length)
    ]
    sizes = np.array([len(piece.tokens) for piece in pieces], np.int64)
    sequences: list[list[Piece]] = []
    # Sequences by their remaining room; bit r of `rooms` is set if there is one with room r.
    by_room: dict[int, list[int]] = defaultdict(list)
    rooms = 0
    for number in np.argsort(-sizes, kind="stable").tolist():
        piece = pieces[number]
        size = len(piece.tokens)
        enough = rooms >> size
        if enough:
            room = size + (enough & -enough).bit_length() - 1
            place = by_room[room].pop()
            if not by_room[room]:
                rooms ^= 1 << room
        else:
            room, place = length, len(sequences)
            sequences.append([])
        sequences[place].append(piece)
        if room > size:
            by_room[room - size].append(place)
            rooms |= 1 << (room - size)
    for sequence in sequences:
        sequence.sort(key=_place)
    return sorted(sequences, key=lambda sequence: _place(sequence[0]))


def _place(piece: Piece) -> tuple[int, int]:
    return piece.row, piece.start
