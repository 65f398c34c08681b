"""`compact` of packed sequences: documents are put together again, and packed in their new order.

A document is whole in one shard, with the token that ends it, so no text and no tokenizer is
needed. Tokens wait in a file, as large as those of the split; memory is a row per part of a
document.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.counters import sum_counters
from beam_jobs.record_types.tokens import (
    PACKED_COLUMNS,
    packing_statistics,
    token_statistics,
)
from beam_jobs.staging.reader import Source, read_frames
from beam_jobs.text.packings import PACKINGS
from beam_jobs.text.packings.base import Piece
from beam_jobs.text.token_examples import SequencePacker, TokenLengths
from beam_jobs.workspace import Workspace
from shard_format import (
    Manifest,
    ShardInfo,
    decode_example,
    frame,
    id_hash,
    index_schema,
    shuffle_keys,
    unframe,
)
from shard_format.keys import UInt64Array

_TOKEN = np.dtype("<i4")


class Documents(NamedTuple):
    """The documents of a split in the order of their keys, their tokens in a file.

    Attributes:
        ids: [n] of them.
        keys: [n] uint64, ascending.
        first: [n + 1] int64, the first part of each.
        begins: [parts] int64, the first byte of each part in the file.
        sizes: [parts] int64, its tokens.
        path: The file.
    """

    ids: list[str]
    keys: UInt64Array
    first: IntArray
    begins: IntArray
    sizes: IntArray
    path: Path

    def tokens(self, file: Any, number: int) -> npt.NDArray[np.int32]:
        """[tokens] int32 of a document, the one that ends it included."""
        parts = []
        for part in range(int(self.first[number]), int(self.first[number + 1])):
            file.seek(int(self.begins[part]))
            parts.append(np.frombuffer(file.read(int(self.sizes[part]) * _TOKEN.itemsize), _TOKEN))
        return np.concatenate(parts)


@contextlib.contextmanager
def documents_of(
    rows: pa.Table,
    sources: Sequence[Source],
    without: frozenset[str],
    manifest: Manifest,
    workspace: Workspace,
    block_bytes: int,
) -> Iterator[Documents]:
    """The documents of a split, for as long as their tokens are on the disk.

    Args:
        rows: Of its index.
        sources: Its shards.
        without: Ids of documents to leave out.
        manifest: Of the set.
        workspace: For the file.
        block_bytes: Payload in memory at a time.
    """
    path = workspace.scratch_file()
    ids: dict[str, int] = {}
    parts: list[tuple[int, int, int, int]] = []  # document, start, begin, tokens
    table = pa.table({"unit": rows["shard"], "offset": rows["offset"], "length": rows["length"]})
    try:
        with path.open("wb") as file:
            for row, frames in read_frames(table, sources, block_bytes):
                own = rows.slice(row, len(frames))
                for framed, names, starts in zip(
                    frames, own["documents"].to_pylist(), own["starts"].to_pylist(), strict=True
                ):
                    for part, tokens in enumerate(_segments(framed)):
                        if names[part] in without:
                            continue
                        number = ids.setdefault(names[part], len(ids))
                        parts.append((number, starts[part], file.tell(), len(tokens)))
                        file.write(tokens.astype(_TOKEN).tobytes())
        yield _in_order(list(ids), parts, int(manifest.config["seed"]), path)
    finally:
        path.unlink(missing_ok=True)


def _segments(framed: bytes) -> list[IntArray]:
    """Returns the tokens of every document, or part of one, in a sequence."""
    values = decode_example(unframe(framed, "a packed sequence"))
    tokens = np.array(values["tokens"], np.int64)
    segments = np.array(values["segments"], np.int64)
    filled = int(np.count_nonzero(segments))
    edges = np.flatnonzero(np.diff(segments[:filled])) + 1
    return np.split(tokens[:filled], edges)


def _in_order(
    ids: list[str], parts: list[tuple[int, int, int, int]], seed: int, path: Path
) -> Documents:
    keys = shuffle_keys(np.array([id_hash(one) for one in ids], np.uint64), seed)
    order = sorted(range(len(ids)), key=lambda number: (keys[number], ids[number]))
    rank = np.empty(len(ids), np.int64)
    rank[order] = np.arange(len(ids))
    columns = np.array(parts, np.int64).reshape(-1, 4)
    by_document = np.lexsort((columns[:, 1], rank[columns[:, 0]]))
    columns = columns[by_document]
    first = np.searchsorted(rank[columns[:, 0]], np.arange(len(ids) + 1))
    ordered = [ids[number] for number in order]
    return Documents(ordered, keys[order], first, columns[:, 2], columns[:, 3], path)


class Repacker:
    """Packs the documents of a split, a shard at a time.

    Args:
        manifest: Of the set, with the options of packing.
        documents: All of the split.

    Attributes:
        counters: Of the shards so far, see `beam_jobs.counters`.
    """

    def __init__(self, manifest: Manifest, documents: Documents) -> None:
        self._manifest = manifest
        self._documents = documents
        self.counters: list[pa.Table] = []

    def write(
        self,
        first: int,
        end: int,
        file: str,
        shard: int,
        workspace: Workspace,
        on_bytes: Callable[[int], None],
    ) -> tuple[ShardInfo, pa.Table]:
        """Writes a shard with the documents [first, end); returns it, and its rows of the index."""
        config, ids = self._manifest.config, self._documents.ids
        vocabulary = config["vocabulary"]
        counts = TokenLengths(int(vocabulary["size"]), vocabulary["unknown"])
        pad = vocabulary["end"] if vocabulary["pad"] is None else vocabulary["pad"]
        packing = PACKINGS[config["packing"]]
        packer = SequencePacker(
            self._manifest.schema.features, packing, int(config["pack"]), int(pad)
        )
        digest, lengths, rows, columns = hashlib.sha256(), [], [], []
        with (
            workspace.write(workspace.out / file, durable=True) as sink,
            self._documents.path.open("rb") as spool,
        ):
            pieces = self._pieces(first, end, spool, counts)
            for built in packer.build(pieces, ids.__getitem__):
                framed = frame(built.example)
                digest.update(framed)
                sink.write(framed)
                on_bytes(len(framed))
                lengths.append(len(framed))
                rows.append(built.row)
                columns.append(built.columns)
        self.counters += [*counts.counters(), *packer.counters()]
        length = np.array(lengths, np.int64)
        schema = index_schema(PACKED_COLUMNS)
        values: dict[str, Any] = {
            name: pa.array([one[name] for one in columns], schema.field(name).type)
            for name in ("record_id", "fingerprint", *(field.name for field in PACKED_COLUMNS))
        }
        values |= {
            "shard": np.full(len(length), shard, np.int32),
            "offset": np.cumsum(length) - length,
            "length": length,
            "key": self._documents.keys[rows],
            "label": pa.nulls(len(length), pa.int64()),
        }
        info = ShardInfo(file, len(length), int(length.sum()), digest.hexdigest())
        table = pa.table({name: values[name] for name in schema.names})
        return info, table.cast(schema)

    def _pieces(self, first: int, end: int, spool: Any, counts: TokenLengths) -> Iterator[Piece]:
        for number in range(first, end):
            tokens = self._documents.tokens(spool, number)
            counts.add([tokens[:-1]])
            yield Piece(number, 0, tokens, len(tokens))

    def statistics(self) -> dict[str, Any]:
        """Tokens, vocabulary and packing, as a build of all documents has them."""
        counters = sum_counters(self.counters)
        return token_statistics(counters) | packing_statistics(counters)
