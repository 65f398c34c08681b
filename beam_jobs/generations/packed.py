"""`compact --remove` of packed sequences: documents are taken out of the sequences they are in.

A sequence keeps its other documents and gets padding where one is removed. No
text and no tokenizer is needed, because a sequence says which tokens are of which document.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.staging.reader import Source, read_frames
from beam_jobs.text.packings import PACKINGS
from beam_jobs.text.packings.base import Piece
from beam_jobs.text.token_examples import SequencePacker
from shard_format import Manifest, decode_example, frame, id_hash, shuffle_keys, unframe


def without_documents(
    rows: pa.Table,
    sources: Sequence[Source],
    removed: frozenset[str],
    manifest: Manifest,
    path: Path,
) -> pa.Table:
    """Takes documents out of the sequences of a split.

    Args:
        rows: Rows of the index.
        sources: Shards of the split.
        removed: Ids of the documents.
        manifest: Manifest of the set, with the options of packing.
        path: File for the sequences that change.

    Returns:
        The rows of the remaining sequences, in any order; those that changed are in shard number
        `len(sources)`, which is the file.
    """
    documents = rows["documents"].combine_chunks()
    hits = pc.is_in(documents.flatten(), value_set=pa.array(sorted(removed), pa.string()))
    changed = np.unique(pc.list_parent_indices(documents).filter(hits))
    unchanged = rows.take(pa.array(np.setdiff1d(np.arange(len(rows)), changed)))
    rows = rows.take(pa.array(changed))
    config = manifest.config
    vocabulary = config["vocabulary"]
    pad = vocabulary["end"] if vocabulary.get("pad") is None else vocabulary["pad"]
    packing = PACKINGS["concat"]  # which documents share a sequence is known
    packer = SequencePacker(manifest.schema.features, packing, int(config["pack"]), int(pad))
    written: list[dict[str, Any]] = []
    table = pa.table({"unit": rows["shard"], "offset": rows["offset"], "length": rows["length"]})
    with path.open("wb") as file:
        for first, frames in read_frames(table, sources, bounds.COPIED_FRAME_BYTES):
            own = rows.slice(first, len(frames)).to_pylist()
            for framed, row in zip(frames, own, strict=True):
                parts = zip(row["documents"], row["starts"], _segments(framed), strict=True)
                kept = [part for part in parts if part[0] not in removed]
                if not kept:
                    continue
                pieces = [Piece(0, start, tokens, len(tokens)) for _, start, tokens in kept]
                built = packer.sequence(pieces, [name for name, _, _ in kept])
                (key,) = shuffle_keys([id_hash(kept[0][0])], int(config["seed"]))
                framed = frame(built.example)
                place = {"shard": len(sources), "offset": file.tell(), "length": len(framed)}
                written.append({**row, **built.columns, **place, "key": int(key)})
                file.write(framed)
    return pa.concat_tables([unchanged, pa.Table.from_pylist(written, rows.schema)])


def _segments(framed: bytes) -> list[npt.NDArray[np.int32]]:
    """Returns the tokens of every document, or part of one, in a sequence."""
    values = decode_example(unframe(framed, "a packed sequence"))
    tokens = np.array(values["tokens"], np.int32)
    segments = np.array(values["segments"], np.int64)
    filled = int(np.count_nonzero(segments))
    edges = np.flatnonzero(np.diff(segments[:filled])) + 1
    return np.split(tokens[:filled], edges)


def packing_statistics(index: pa.Table, length: int) -> dict[str, Any]:
    """Returns how documents fill the sequences of a split, as a build counts it.

    Args:
        index: Index of the split.
        length: Number of tokens of a sequence.
    """
    parts = pc.list_flatten(index["documents"]).value_counts().field("counts")
    padding = pc.sum(index["padding"]).as_py() or 0
    stored = len(index) * length
    documents, cut = len(parts), pc.sum(pc.greater(parts, 1)).as_py() or 0
    return {
        "sequences": len(index),
        "documents": documents,
        "tokens": stored - padding,
        "padding": padding,
        "padding_share": padding / stored if stored else 0.0,
        "cut": cut,
        "cut_share": cut / documents if documents else 0.0,
    }
