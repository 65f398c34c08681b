"""Archive formats: one module each, named in `beam_jobs.options.formats`.

base           Container and Member, which an archive format implements
tar, zip       the two formats
archive_index  the members of one archive in columns, their layout, WebDataset records
"""
