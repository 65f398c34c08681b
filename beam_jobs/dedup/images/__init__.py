"""Near-duplicates among pictures: plain functions on columns, no Beam.

    layout        the bytes of a perceptual hash and of a thumbnail
    candidates    hashes -> pairs that are worth a second look
    windows       a window of a thumbnail, stretched
    confirmation  two thumbnails -> their similarity once aligned
    ordering      an order of rows that does not depend on where they stand
    clusters      all of it: `near_pairs`
    union_find    pairs -> clusters: `components`

The bytes are made by `beam_jobs/images/perception.py`. What was tried and why this was chosen:
docs/decisions/0007-near-duplicates.md.
"""
