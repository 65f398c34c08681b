"""Duplicates among texts: plain functions on columns, no Beam.

    folding       what differences count for nothing: form, case, spacing; the words that are left
    fingerprints  equal for documents that are equal once folded
    shingles      the set of a document's word 5-grams, as hashes
    signatures    MinHash: 128 numbers that agree as often as two sets overlap
    bands         which rows of a signature make a band, for a threshold
    candidates    band keys -> pairs that are worth a second look
    confirmation  the exact Jaccard similarity of pairs
    clusters      all of it: `near_pairs`
    parts         lines and paragraphs that stand elsewhere too: found by hash, taken out by number
    finishing     the same where shards are written

A document is treated by itself: what is found of it depends on no other one of its batch.
"""
