"""Staged units on disk: written by stage 2, read by planning and sharding.

units       the four files of a unit under one content address, and how a finished unit is known
recipes     which records a shard has, and their sidecar rows
runs        units merged into the order of the shards
sidecars    columns of all staged units, one unit in memory at a time
reader      staged payload in any order, with few reads
reordering  rows and payload that wait for their order
"""

from beam_jobs.staging.units import SIDECAR_FIELDS, UnitSummary, forget_unit, unit_files

__all__ = ["SIDECAR_FIELDS", "UnitSummary", "forget_unit", "unit_files"]
