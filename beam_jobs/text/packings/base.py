"""The interface of a packing: how the documents of a shard become sequences of one length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from beam_jobs.text.tokenizers.base import Ids


class Piece(NamedTuple):
    """A document, or a part of one, with the token that ends it.

    Attributes:
        row: Row of the document in the table of the shard.
        start: Position of the first token in the document.
        tokens: [n] int32, at least one.
        document_tokens: Number of tokens of the whole document.
    """

    row: int
    start: int
    tokens: Ids
    document_tokens: int

    def cut(self, start: int, end: int) -> Piece:
        """The tokens [start, end) of this piece."""
        return self._replace(start=self.start + start, tokens=self.tokens[start:end])


# From whole documents in the order of rows, and a length, to the pieces of every sequence, together
# at most that long. Pieces of a sequence are in the order of (row, start), and so are sequences by
# their first piece. Memory must be bounded for any shard.
Packing = Callable[[Iterator[Piece], int], Iterator[list[Piece]]]
