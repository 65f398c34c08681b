"""Serialized records and their bytes: read from shards, found by the index, decoded to pixels."""
