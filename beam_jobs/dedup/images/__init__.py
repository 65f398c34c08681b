"""Near duplicates among images: functions on columns.

    hash_format      the bytes of a perceptual hash and of a thumbnail
    candidates       hashes -> candidate pairs
    pair_verifier    two thumbnails -> their similarity after alignment
    near_duplicates  all of it: `near_duplicates`

`beam_jobs/images/perceptual_hash.py` computes the hashes. Alternatives that were tried:
docs/decisions/0007-near-duplicates.md.
"""
