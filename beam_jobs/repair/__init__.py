"""Repair of a damaged shard set: only what is damaged is written again.

repair       the repair of a set: what is damaged, and what remains lost
build_repair the damaged files of one build, each from its cheapest source
generations  sets of several builds: each build, the views of them, and a lost manifest
finished     files that are ready to replace damaged ones, named by their SHA-256
jobs         the jobs of a build, with the current paths of its sources
read_items   the files of the sources that a build has read
records      the damaged records of shards, from staged units or the sources
"""

from beam_jobs.repair.records import LostRecord
from beam_jobs.repair.repair import Repaired, repair

__all__ = ["LostRecord", "Repaired", "repair"]
