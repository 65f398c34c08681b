"""Preprocessing jobs on Apache Beam: raw corpora in, shard sets out.

Beam moves references, Arrow moves metadata, files move payload. The five stages, one module each:

    listing     sources -> work units
    staging     a unit  -> key-sorted payload, Arrow sidecar, rejects
    planning    sidecars -> duplicates, splits, shard boundaries: one recipe per shard
    sharding    a recipe -> a shard
    committing  everything -> index, metadata, manifest

`pipeline` ties them together, `run` checks the options and drives it. To keep this package light,
import those modules directly; nothing here loads Beam.
"""
