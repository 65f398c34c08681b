"""Generations of a shard set: what `--append` adds, and what `compact` makes of all of them.

append      a build into generations/000k, planned against the stored records of the set
views       manifest and index of all generations up to one
compact     all generations merged into one set; removes records
packed      removal of documents from sequences of --pack
leftovers   what compact merges besides shards
replay      all generations built again, with repaired files
log         what each generation added
"""
