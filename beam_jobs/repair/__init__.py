"""Repair of a damaged shard set: only what is damaged is written again.

repair       what is damaged, and what remains lost
set_files    the damaged files of one build, in which order they are had
generations  a set of several builds: one after the other, and the views of them
newest_view  the manifest of such a set, if it is lost
finished     files that are ready, by their SHA-256, until they replace the damaged ones
own_jobs     the jobs of a build, with the sources where they are now
own_items    which files of the sources a build has read
job          the options of the build, from build.json or the manifest
records      the damaged records of shards, from staged units or the sources
rebuild      a whole build next to the set, where single records are not enough
compacted    which records were removed from a compacted set
"""

from beam_jobs.repair.records import LostRecord
from beam_jobs.repair.repair import Repaired, repair

__all__ = ["LostRecord", "Repaired", "repair"]
