"""`compact --remove` of packed sequences: documents are taken out of the sequences they are in.

A sequence keeps its other documents and gets padding where one is removed. No
text and no tokenizer is needed, because a sequence says which tokens are of which document.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import Columns, IntArray, slices
from beam_jobs.staging.reader import Source, read_frames
from beam_jobs.staging.reordering import Partitions, StructuredArray, rows_of_partition
from beam_jobs.text.packings import PACKINGS
from beam_jobs.text.packings.base import Piece
from beam_jobs.text.token_examples import SequencePacker
from shard_format import Manifest, decode_example, frame, id_hash, shuffle_keys, unframe


class ChangedSequences(NamedTuple):
    """The sequences of a split that have documents which are removed.

    Attributes:
        rows: [k] int64, ascending: their rows in the index.
        table: Rows of the sequences that remain, sorted by key; their frames are in a file.
    """

    rows: IntArray
    table: pa.Table


def without_documents(
    tables: Iterable[pa.Table],
    sources: Callable[[pa.Table], tuple[pa.Table, list[Source]]],
    source: int,
    removed: frozenset[str],
    manifest: Manifest,
    path: Path,
) -> ChangedSequences:
    """Takes documents out of the sequences of a split.

    Args:
        tables: The index of the split, in parts.
        sources: From rows to their places and the files that have them, for `read_frames`.
        source: Number of the file in the place of a shard.
        removed: Ids of the documents.
        manifest: Manifest of the set, with the options of packing.
        path: File for the sequences that change.
    """
    wanted = pa.array(sorted(removed), pa.string())
    numbers, changed, first = [np.zeros(0, np.int64)], [], 0
    with path.open("wb") as file:
        repack = _Repacking(file, source, removed, manifest)
        for table in tables:
            schema = table.schema
            for own in slices(table, bounds.MERGED_ROWS):
                documents = own["documents"].combine_chunks()
                hits = pc.is_in(documents.flatten(), value_set=wanted)
                rows = np.unique(pc.list_parent_indices(documents).filter(hits))
                changed.append(repack(own.take(pa.array(rows, pa.int64())), sources))
                numbers.append(rows + first)
                first += len(own)
    joined = pa.concat_tables([schema.empty_table(), *changed]).combine_chunks()
    order = pc.sort_indices(joined.select(["key"]), sort_keys=[("key", "ascending")])
    return ChangedSequences(np.concatenate(numbers), joined.take(order))


class _Repacking:
    """Writes sequences again without some documents.

    Args:
        file: The file for them.
        source: Its number in the place of a shard.
        removed: Ids of the documents.
        manifest: Manifest of the set, with the options of packing.
    """

    def __init__(
        self, file: BinaryIO, source: int, removed: frozenset[str], manifest: Manifest
    ) -> None:
        vocabulary = manifest.config["vocabulary"]
        pad = vocabulary["end"] if vocabulary.get("pad") is None else vocabulary["pad"]
        packing = PACKINGS["concat"]  # which documents share a sequence is known
        length = int(manifest.config["pack"])
        self._packer = SequencePacker(manifest.schema.features, packing, length, int(pad))
        self._seed = int(manifest.config["seed"])
        self._file, self._source, self._removed = file, source, removed

    def __call__(
        self, rows: pa.Table, sources: Callable[[pa.Table], tuple[pa.Table, list[Source]]]
    ) -> pa.Table:
        """The rows of the sequences that have documents left."""
        written: list[dict[str, Any]] = []
        for first, frames in read_frames(*sources(rows), bounds.COPIED_FRAME_BYTES):
            own = rows.slice(first, len(frames)).to_pylist()
            for framed, row in zip(frames, own, strict=True):
                parts = zip(row["documents"], row["starts"], _segments(framed), strict=True)
                kept = [part for part in parts if part[0] not in self._removed]
                if not kept:
                    continue
                pieces = [Piece(0, start, tokens, len(tokens)) for _, start, tokens in kept]
                built = self._packer.sequence(pieces, [name for name, _, _ in kept])
                (key,) = shuffle_keys([id_hash(kept[0][0])], self._seed)
                framed = frame(built.example)
                place = {
                    "shard": self._source, "offset": self._file.tell(), "length": len(framed)
                }  # fmt: skip
                written.append({**row, **built.columns, **place, "key": int(key)})
                self._file.write(framed)
        return pa.Table.from_pylist(written, rows.schema)


def _segments(framed: bytes) -> list[npt.NDArray[np.int32]]:
    """Returns the tokens of every document, or part of one, in a sequence."""
    values = decode_example(unframe(framed, "a packed sequence"))
    tokens = np.array(values["tokens"], np.int32)
    segments = np.array(values["segments"], np.int64)
    filled = int(np.count_nonzero(segments))
    edges = np.flatnonzero(np.diff(segments[:filled])) + 1
    return np.split(tokens[:filled], edges)


_DOCUMENT = np.dtype([("head", np.uint64), ("tail", np.uint64)])  # a hash of its id


def packing_statistics(columns: Columns, length: int, folder: Path) -> dict[str, Any]:
    """Returns how documents fill the sequences of a split, as a build counts it.

    Args:
        columns: Columns of the index of the split.
        length: Number of tokens of a sequence.
        folder: A path on the local disk for what does not fit in memory.
    """
    sequences = padding = parts = 0
    for table in columns(["documents", "padding"]):
        sequences += len(table)
        padding += pc.sum(table["padding"]).as_py() or 0
        parts += len(pc.list_flatten(table["documents"]))
    ranges = max(1, -(-parts // rows_of_partition(parts)))
    documents = cut = 0
    with contextlib.closing(Partitions(folder, _DOCUMENT, ranges)) as partitions:
        for table in columns(["documents"]):
            hashes = _hashes(pc.list_flatten(table["documents"]))
            leading = (hashes["head"] >> np.uint64(32)).astype(np.int64)
            partitions.add(leading * ranges >> 32, hashes)
        for hashes in partitions.take():
            counts = np.unique(hashes, return_counts=True)[1]
            documents += len(counts)
            cut += int(np.count_nonzero(counts > 1))
    stored = sequences * length
    return {
        "sequences": sequences,
        "documents": documents,
        "tokens": stored - padding,
        "padding": padding,
        "padding_share": padding / stored if stored else 0.0,
        "cut": cut,
        "cut_share": cut / documents if documents else 0.0,
    }


def _hashes(ids: pa.ChunkedArray) -> StructuredArray:
    """[n] _DOCUMENT: 128 bits for each id, which are those of no other one."""
    blake2b = hashlib.blake2b
    digests = [blake2b(one.encode(), digest_size=16).digest() for one in ids.to_pylist()]
    return np.frombuffer(b"".join(digests), _DOCUMENT)
