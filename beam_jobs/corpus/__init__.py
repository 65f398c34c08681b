"""Raw data to records, once for every record type.

record            the types: SourceItem and Locator, RawRecord, Rejection
discovery         the files below the sources; names, their record ids
listing           files, members of archives and splits of files: the items of a corpus
reading           an item -> its records; source_io retries reads, streams and codecs decompress
containers        archives; formats, the files with records in them; sniffing, which one a file is
labels            label, split, group and kept columns; label_table, the table of --labels
record_extractor  what a record type takes out of a record
sampling          some files, folders and members, for what a bounded look settles
schema_inference  the source, columns and labels that are settled so before listing
replacements      corrected files in place of rejected records
item_table        items as rows of the listing on disk
"""
