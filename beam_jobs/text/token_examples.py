"""Documents to examples of token ids: one example each, or packed into sequences of one length."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.columns import int64
from beam_jobs.counters import count, count_once, count_values, sum_counters
from beam_jobs.staging.examples import BuiltExample, ExampleBuilder, StagedRecord
from beam_jobs.text.packings.base import Packing, Piece
from beam_jobs.text.tokenizers import Ids, Tokenizer
from shard_format import Feature, decode_example, encode_features, finish_example

# Text that is encoded at a time: libraries use hundreds of bytes per token of a batch.
_BATCH_CHARACTERS = 1 << 18
_BATCH_DOCUMENTS = 1024


@dataclasses.dataclass
class TokenExampleBuilder(ExampleBuilder):
    """Turns every document into an example with its token ids.

    Attributes:
        tokenizer: Encodes it.
        features: Features of an example, without late ones.
    """

    tokenizer: Tokenizer
    features: Sequence[Feature]

    def __post_init__(self) -> None:
        self._encoder = _Encoder(self.tokenizer)

    @override
    def build(self, table: pa.Table, staged: Iterator[StagedRecord]) -> Iterator[BuiltExample]:
        for one in self._encoder(staged):
            values = {**one.values, "tokens": one.ids.astype(np.int64)}
            entries = encode_features(self.features, values)
            example = finish_example(entries + one.record.late)
            yield BuiltExample(example, one.record.row, {"tokens": len(one.ids)})

    @override
    def counters(self) -> pa.Table:
        return sum_counters(self._encoder.counters())


@dataclasses.dataclass
class PackedExampleBuilder(ExampleBuilder):
    """Packs documents into sequences of one length.

    Attributes:
        tokenizer: Encodes them.
        features: Features of an example.
        packing: Which documents, or parts of them, share a sequence.
        length: Tokens of a sequence.
        end: The id behind every document.
        pad: The id that fills up a sequence.
        summarized: Columns of the shard's table whose values are counted.
    """

    tokenizer: Tokenizer
    features: Sequence[Feature]
    packing: Packing
    length: int
    end: int
    pad: int
    summarized: Sequence[str]

    def __post_init__(self) -> None:
        self._encoder = _Encoder(self.tokenizer)
        self._rows: list[int] = []
        self._table = pa.table({})
        self._packer = SequencePacker(self.features, self.packing, self.length, self.pad)

    @override
    @property
    def joins_records(self) -> bool:
        return True

    @override
    def build(self, table: pa.Table, staged: Iterator[StagedRecord]) -> Iterator[BuiltExample]:
        self._table = table
        ids = table["record_id"]
        return self._packer.build(self._pieces(staged), lambda row: ids[row].as_py())

    def _pieces(self, staged: Iterator[StagedRecord]) -> Iterator[Piece]:
        end = np.array([self.end], np.int32)
        for one in self._encoder(staged):
            self._rows.append(one.record.row)
            tokens = np.concatenate((one.ids, end))
            yield Piece(one.record.row, 0, tokens, len(tokens))

    @override
    def counters(self) -> pa.Table:
        rows = np.array(self._rows, np.int64)
        return sum_counters(
            [
                *self._encoder.counters(),
                *(count_values(name, int64(self._table[name])[rows]) for name in self.summarized),
                *self._packer.counters(),
            ]
        )


class SequencePacker:
    """Tokens of documents to examples of packed sequences.

    Args:
        features: Features of an example.
        packing: Which documents, or parts of them, share a sequence.
        length: Tokens of a sequence.
        pad: The id that fills up a sequence.
    """

    def __init__(
        self, features: Sequence[Feature], packing: Packing, length: int, pad: int
    ) -> None:
        self.features, self.packing, self.length, self.pad = features, packing, length, pad
        self._counts: Counter[str] = Counter()

    def build(
        self, documents: Iterator[Piece], id_of: Callable[[int], str]
    ) -> Iterator[BuiltExample]:
        """The examples of whole documents, each with the token that ends it, in order of rows."""
        for pieces in self.packing(documents, self.length):
            yield self.sequence(pieces, [id_of(piece.row) for piece in pieces])

    def sequence(self, pieces: list[Piece], documents: list[str]) -> BuiltExample:
        """The example of one sequence, with the ids of the documents of its pieces."""
        tokens = np.full(self.length, self.pad, np.int64)
        segments, positions = np.zeros((2, self.length), np.int64)
        sizes = [len(piece.tokens) for piece in pieces]
        filled = sum(sizes)
        tokens[:filled] = np.concatenate([piece.tokens for piece in pieces])
        segments[:filled] = np.repeat(np.arange(1, len(pieces) + 1), sizes)
        begins = np.cumsum(sizes) - sizes
        positions[:filled] = np.arange(filled) - np.repeat(begins, sizes)
        padding = self.length - filled
        # A document that was cut has exactly one first piece.
        cut = sum(one.start == 0 and len(one.tokens) < one.document_tokens for one in pieces)
        self._counts.update(sequences=1, stored=filled, padding=padding, cut=cut)
        record_id = f"{documents[0]}#{pieces[0].start}"
        values: dict[str, Any] = {
            "id": record_id,
            "tokens": tokens,
            "segments": segments,
            "positions": positions,
        }
        digest = hashlib.sha256(tokens.astype("<i8").tobytes()).digest()
        columns = {
            "record_id": record_id,
            "fingerprint": digest[:16],
            "documents": documents,
            "starts": [piece.start for piece in pieces],
            "padding": padding,
        }
        example = finish_example(encode_features(self.features, values))
        return BuiltExample(example, pieces[0].row, columns)

    def counters(self) -> list[pa.Table]:
        """Counters of sequences, tokens stored in them, padding, and documents that were cut."""
        return [count_once(what, 1, number) for what, number in self._counts.items()]


class TokenLengths:
    """Counts tokens and documents.

    Args:
        size: One more than the largest id.
        unknown: The id of what is unknown to the tokenizer; None if nothing is.
    """

    def __init__(self, size: int, unknown: int | None) -> None:
        self._unknown = unknown
        self._lengths: list[int] = []
        self._used = np.zeros(size, np.int64)

    def add(self, documents: Sequence[Ids]) -> None:
        """Counts some documents, without the tokens that end them."""
        self._lengths += [len(ids) for ids in documents]
        self._used += np.bincount(np.concatenate(documents), minlength=len(self._used))

    def counters(self) -> list[pa.Table]:
        """Counters of "tokens" (per document), "id", "unknown" and "vocabulary" (its size)."""
        size = len(self._used)
        unknown = 0 if self._unknown is None else int(self._used[self._unknown])
        return [
            count_values("tokens", np.array(self._lengths, np.int64)),
            count("id", np.arange(size), self._used),
            count_once("unknown", 1, unknown),
            count_once("vocabulary", size, 1),
        ]


class _Encoded(NamedTuple):
    """A staged document with its token ids, and the values of its other features."""

    record: StagedRecord
    values: dict[str, Any]
    ids: Ids


class _Encoder:
    """Encodes documents in batches, and counts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts = TokenLengths(tokenizer.vocabulary.size, tokenizer.vocabulary.unknown)
        self.counters = self._counts.counters

    def __call__(self, staged: Iterator[StagedRecord]) -> Iterator[_Encoded]:
        """Every document with its ids."""
        waiting: list[tuple[StagedRecord, str, dict[str, Any]]] = []
        characters = 0
        for record in staged:
            text, values = staged_text(record.entries)
            waiting.append((record, text, values))
            characters += len(text)
            if characters >= _BATCH_CHARACTERS or len(waiting) == _BATCH_DOCUMENTS:
                yield from self._encode(waiting)
                waiting, characters = [], 0
        if waiting:
            yield from self._encode(waiting)

    def _encode(self, batch: list[tuple[StagedRecord, str, dict[str, Any]]]) -> Iterator[_Encoded]:
        encoded = self._tokenizer.encode([text for _, text, _ in batch])
        self._counts.add(encoded)
        for (record, _, values), ids in zip(batch, encoded, strict=True):
            yield _Encoded(record, values, ids)


def staged_text(entries: bytes) -> tuple[str, dict[str, Any]]:
    """The text and the other features of a staged document."""
    values: dict[str, Any] = dict(decode_example(finish_example(entries)))
    (text,) = values.pop("text")
    return text.decode(), values
