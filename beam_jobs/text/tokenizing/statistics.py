"""What the manifest tells of the tokens of a split, from its tally."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from beam_jobs.counters import counts_of
from beam_jobs.integer_histograms import summarize


def token_statistics(tally: pa.Table) -> dict[str, Any]:
    """Tokens per document (without the one that ends it), and how the vocabulary is used.

    Returns:
        "tokens": least, greatest, mean and histogram. "vocabulary": "size", "used" (how many ids
        occur), "coverage" (their share of the size), "tokens" (all that occur, padding left out),
        "unknown" (the share of those that stand for text the tokenizer does not know).
    """
    ids = counts_of(tally, "id")
    tokens = int(ids.counts.sum())
    size = int(counts_of(tally, "vocabulary").values[0])
    unknown = counts_of(tally, "unknown").total
    return {
        "tokens": summarize(*counts_of(tally, "tokens")),
        "vocabulary": {
            "size": size,
            "used": len(ids.values),
            "coverage": len(ids.values) / size,
            "tokens": tokens,
            "unknown": unknown / tokens if tokens else 0.0,
        },
    }


def packing_statistics(tally: pa.Table) -> dict[str, Any]:
    """How documents lie in sequences.

    Returns:
        "packing": "sequences", "documents", "tokens" (with those that end documents), "padding"
        (tokens), "padding_share" (of all that is stored), "cut" (documents in more than one
        sequence), "cut_share".
    """
    totals = {what: counts_of(tally, what).total for what in ("sequences", "stored", "padding")}
    cut = counts_of(tally, "cut").total
    documents = int(counts_of(tally, "tokens").counts.sum())
    return {
        "packing": {
            "sequences": totals["sequences"],
            "documents": documents,
            "tokens": totals["stored"],
            "padding": totals["padding"],
            "padding_share": totals["padding"] / (totals["stored"] + totals["padding"]),
            "cut": cut,
            "cut_share": cut / documents,
        }
    }
