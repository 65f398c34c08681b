"""Repair of a damaged shard set: only what is damaged is written again.

repair       the repair of a set: what is damaged, and what remains lost
set_files    the damaged files of one build, each from its cheapest source
generations  sets of several builds: each build, and the views of them
newest_view  the manifest of such a set, if it is lost
finished     files that are ready to replace damaged ones, named by their SHA-256
own_jobs     the jobs of a build, with the current paths of its sources
own_items    the files of the sources that a build has read
job          the options of the build, from build.json or the manifest
records      the damaged records of shards, from staged units or the sources
rebuild      a whole build next to the set, where single records are not enough
compacted    the records that were removed from a compacted set
"""

from beam_jobs.repair.records import LostRecord
from beam_jobs.repair.repair import Repaired, repair

__all__ = ["LostRecord", "Repaired", "repair"]
