"""Documents as token ids: one example each, or packed into sequences of one length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.counters import added, counted, counted_once, tally
from beam_jobs.record_types.base import Finished
from beam_jobs.text.tokenizing.finishing import Ending, StagedText
from beam_jobs.text.tokenizing.packings.base import Packing, Piece
from beam_jobs.text.tokenizing.tokenizer import Ids, Tokenizer
from shard_format import Feature, encode_features, finish_example

# Text that is encoded at a time: libraries keep hundreds of bytes per token of a batch.
_BATCH_CHARACTERS = 1 << 18
_BATCH_DOCUMENTS = 1024


class TokensEnding(Ending):
    """Every document becomes its token ids.

    Args:
        tokenizer: Encodes it.
        features: Of an example, those that are late left out.
    """

    def __init__(self, tokenizer: Tokenizer, features: Sequence[Feature]) -> None:
        self._encoder = Encoder(tokenizer)
        self._features = features

    def write(self, table: pa.Table, documents: Iterator[StagedText]) -> Iterator[Finished]:
        """See Ending."""
        for one, ids in self._encoder(documents):
            values = {**one.values, "tokens": ids.astype(np.int64)}
            entries = encode_features(self._features, values)
            yield Finished(finish_example(entries + one.late), one.row, {"tokens": len(ids)})

    def tally(self) -> pa.Table:
        """See Finisher."""
        return added(self._encoder.tallies())


class PackedEnding(Ending):
    """Documents become sequences of one length.

    Args:
        tokenizer: Encodes them.
        features: Of an example.
        packing: Says which documents, or stretches of them, stand in a sequence.
        length: Tokens of a sequence.
        end: The id behind every document.
        pad: The id that fills a sequence up.
        measured: Columns of the shard's table whose numbers are counted.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        features: Sequence[Feature],
        packing: Packing,
        length: int,
        end: int,
        pad: int,
        measured: Sequence[str],
    ) -> None:
        self._encoder = Encoder(tokenizer)
        self._features = features
        self._packing = packing
        self._length = length
        self._end = end
        self._pad = pad
        self._measured = measured
        self._rows: list[int] = []
        self._counts = {"sequences": 0, "stored": 0, "padding": 0, "cut": 0}
        self._table = pa.table({})

    def write(self, table: pa.Table, documents: Iterator[StagedText]) -> Iterator[Finished]:
        """See Ending."""
        self._table = table
        ids = table["record_id"]
        for pieces in self._packing(self._pieces(documents), self._length):
            yield self._sequence(pieces, [ids[piece.row].as_py() for piece in pieces])

    def _pieces(self, documents: Iterator[StagedText]) -> Iterator[Piece]:
        end = np.array([self._end], np.int32)
        for one, ids in self._encoder(documents):
            self._rows.append(one.row)
            tokens = np.concatenate((ids, end))
            yield Piece(one.row, 0, tokens, len(tokens))

    def _sequence(self, pieces: list[Piece], documents: list[str]) -> Finished:
        tokens = np.full(self._length, self._pad, np.int64)
        segments, positions = np.zeros((2, self._length), np.int64)
        sizes = [len(piece.tokens) for piece in pieces]
        filled = sum(sizes)
        tokens[:filled] = np.concatenate([piece.tokens for piece in pieces])
        segments[:filled] = np.repeat(np.arange(1, len(pieces) + 1), sizes)
        begins = np.cumsum(sizes) - sizes
        positions[:filled] = np.arange(filled) - np.repeat(begins, sizes)
        padding = self._length - filled
        self._count(pieces, filled, padding)
        record_id = f"{documents[0]}#{pieces[0].start}"
        values: dict[str, Any] = {
            "id": record_id,
            "tokens": tokens,
            "segments": segments,
            "positions": positions,
        }
        digest = hashlib.sha256(tokens.astype("<i8").tobytes()).digest()
        return Finished(
            finish_example(encode_features(self._features, values)),
            pieces[0].row,
            {
                "record_id": record_id,
                "fingerprint": digest[:16],
                "documents": documents,
                "starts": [piece.start for piece in pieces],
                "padding": padding,
            },
        )

    def _count(self, pieces: list[Piece], filled: int, padding: int) -> None:
        self._counts["sequences"] += 1
        self._counts["stored"] += filled
        self._counts["padding"] += padding
        # Of a document that was cut there is one first piece.
        self._counts["cut"] += sum(
            piece.start == 0 and len(piece.tokens) < piece.document_tokens for piece in pieces
        )

    def tally(self) -> pa.Table:
        """See Finisher."""
        rows = np.array(self._rows, np.int64)
        return added(
            [
                *self._encoder.tallies(),
                *(tally(name, int64(self._table[name])[rows]) for name in self._measured),
                *(counted_once(what, 1, count) for what, count in self._counts.items()),
            ]
        )


class Encoder:
    """Encodes documents in batches, and counts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._unknown = tokenizer.vocabulary.unknown
        self._lengths: list[int] = []
        self._used = np.zeros(tokenizer.vocabulary.size, np.int64)

    def __call__(self, documents: Iterator[StagedText]) -> Iterator[tuple[StagedText, Ids]]:
        """Every document with its ids."""
        for batch in _batches(documents):
            encoded = self._tokenizer.encode([one.text for one in batch])
            self._lengths += [len(ids) for ids in encoded]
            self._used += np.bincount(np.concatenate(encoded), minlength=len(self._used))
            yield from zip(batch, encoded, strict=True)

    def tallies(self) -> list[pa.Table]:
        """Of "tokens" (per document), "id", "unknown" and "vocabulary" (its size)."""
        size = len(self._used)
        unknown = 0 if self._unknown is None else int(self._used[self._unknown])
        return [
            tally("tokens", np.array(self._lengths, np.int64)),
            counted("id", np.arange(size), self._used),
            counted_once("unknown", 1, unknown),
            counted_once("vocabulary", size, 1),
        ]


def _batches(documents: Iterator[StagedText]) -> Iterator[list[StagedText]]:
    waiting: list[StagedText] = []
    size = 0
    for one in documents:
        waiting.append(one)
        size += len(one.text)
        if size >= _BATCH_CHARACTERS or len(waiting) == _BATCH_DOCUMENTS:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting
