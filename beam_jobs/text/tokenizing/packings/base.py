"""What a packing is: how the documents of a shard become sequences of one length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from beam_jobs.text.tokenizing.tokenizer import Ids


class Piece(NamedTuple):
    """A document, or a stretch of one, with the token that ends it.

    Attributes:
        row: Of the document in the table of the shard.
        start: Place of the first token in the document.
        tokens: [n] int32, at least one.
        document_tokens: How many the whole document has.
    """

    row: int
    start: int
    tokens: Ids
    document_tokens: int

    def cut(self, start: int, end: int) -> Piece:
        """The stretch [start, end) of this piece."""
        return self._replace(start=self.start + start, tokens=self.tokens[start:end])


# Whole documents in order of their row, and a length -> the pieces of every sequence, together at
# most that long. Pieces of a sequence stand in order of (row, start), and so do sequences by their
# first piece. Memory must be bounded, whatever the shard.
Packing = Callable[[Iterator[Piece], int], Iterator[list[Piece]]]
