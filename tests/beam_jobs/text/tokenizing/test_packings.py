from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.text.packings import PACKINGS
from beam_jobs.text.packings.base import Piece
from beam_jobs.text.packings.best_fit import best_fit

lengths = st.lists(st.integers(1, 60), max_size=60)


def documents(sizes):
    """Documents whose tokens are all different."""
    ends = np.cumsum(sizes, dtype=np.int64)
    for row, (end, size) in enumerate(zip(ends.tolist(), sizes, strict=True)):
        yield Piece(row * 3, 0, np.arange(end - size, end, dtype=np.int32), size)


@pytest.mark.parametrize("name", PACKINGS)
@given(lengths, st.integers(1, 25))
def test_every_token_is_exactly_once_and_in_order(name, sizes, length):
    sequences = list(PACKINGS[name](documents(sizes), length))
    pieces = [piece for sequence in sequences for piece in sequence]
    by_document = sorted(pieces, key=lambda piece: (piece.row, piece.start))
    stored = [token for piece in by_document for token in piece.tokens.tolist()]
    assert stored == list(range(sum(sizes)))
    for sequence in sequences:
        assert 0 < sum(len(piece.tokens) for piece in sequence) <= length
    places = [[(piece.row, piece.start) for piece in sequence] for sequence in sequences]
    assert all(own == sorted(own) for own in places)
    assert [own[0] for own in places] == sorted(own[0] for own in places)


@given(lengths, st.integers(1, 25))
def test_concat_pads_the_last_sequence_alone(sizes, length):
    filled = [sum(len(p.tokens) for p in s) for s in PACKINGS["concat"](documents(sizes), length)]
    assert all(size == length for size in filled[:-1])


@given(lengths, st.integers(1, 25))
def test_best_fit_cuts_no_document_that_fits(sizes, length):
    for sequence in PACKINGS["best-fit"](documents(sizes), length):
        for piece in sequence:
            if piece.document_tokens <= length:
                assert len(piece.tokens) == piece.document_tokens
            else:  # whole sequences and a rest
                assert piece.start % length == 0
                assert len(piece.tokens) == min(length, piece.document_tokens - piece.start)


@given(lengths, st.integers(1, 25))
def test_best_fit_joins_what_fits_together(sizes, length):
    """No two sequences of a window could be one; so at most one is no more than half full."""
    filled = [sum(len(p.tokens) for p in s) for s in best_fit(documents(sizes), length)]
    least = sorted(filled)[:2]
    assert len(least) < 2 or sum(least) > length


@given(lengths, st.integers(1, 25), st.integers(1, 200))
def test_windows_hold_all_documents(sizes, length, window):
    sequences = best_fit(documents(sizes), length, window_tokens=window)
    assert sum(len(piece.tokens) for own in sequences for piece in own) == sum(sizes)


def test_padding_is_rare_where_documents_are_many():
    generator = np.random.default_rng(5)
    sizes = generator.lognormal(5, 1, 20_000).astype(int).clip(1).tolist()
    filled = [sum(len(p.tokens) for p in s) for s in best_fit(documents(sizes), 2048)]
    assert 1 - sum(filled) / (2048 * len(filled)) < 0.001
