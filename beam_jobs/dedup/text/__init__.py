"""Duplicates among documents: functions on columns.

    normalization      which differences are ignored: Unicode form, case, spacing; fingerprints
    shingles           the set of a document's word 5-grams, as hashes, and its Jaccard similarity
    signatures         MinHash: 128 numbers, equal as often as two sets overlap
    candidates         bands of signatures -> candidate pairs
    near_duplicates    all of it: `near_duplicates`
    segments           lines and paragraphs: found by hash, removed by number
    repeated_segments  which of equal segments is kept

A document is treated by itself: what is computed of it depends on no other one of its batch.
"""
