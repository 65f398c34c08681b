"""Fingerprints: equal for documents that differ in Unicode form, case and spacing alone."""

from __future__ import annotations

import hashlib
import itertools

import pyarrow as pa

from beam_jobs.dedup.text.normalization import folded


def fingerprints(text: pa.LargeStringArray) -> pa.Array:
    """[n] fixed-size binary (16): the first half of SHA-256 of each text, folded.

    Punctuation counts: "2+2=5" is not "2-2=5".

    Args:
        text: [n] large_string without nulls.
    """
    of = folded(text)
    data, begins = of.data.data, of.begins.tolist()
    digests = [
        hashlib.sha256(data[begin:end]).digest()[:16] for begin, end in itertools.pairwise(begins)
    ]
    return pa.array(digests, pa.binary(16))
