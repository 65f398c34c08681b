"""What one worker holds at a time of a corpus of any size: every such bound of a build.

A bound decides what waits in a file or is taken by pieces, never what is built: a test lowers all
of them a hundredfold and compares the bytes. They are read where they are used, as `bounds.NAME`,
so that they can be lowered. Bounds of one file or one record, and of the layout of a file, are
beside the code that they bound.
"""

from __future__ import annotations

# Units of a corpus, about, whose summaries are in memory, a kilobyte each: above 32 TiB a unit is
# larger than usual.
UNITS = 1 << 20

# Files that are listed as one piece of the corpus, about, each with a line in memory of the folder
# that it is in: what is behind them is listed by other workers.
LISTED_FILES = 1 << 20

# Staging: records that are prepared together, and bytes after which free memory is given back. A
# unit of so few stored bytes may have gigabytes of records.
STAGED_RECORDS = 1 << 12
STAGED_BYTES = 64 << 20  # 64 MiB

# Lists of URLs: rows that are read ahead of the first one that is not fetched, and bytes of bodies
# behind it.
FETCHED_AHEAD = 1 << 10
FETCHED_BYTES = 64 << 20  # 64 MiB

# Rows on their way into another order: batches are joined now and then, because the columns of a
# batch of some hundred rows, as they are made, take three times their bytes.
JOINED_ROWS = 1 << 9
SORTED_BYTES = 1 << 20  # 1 MiB: some 4,000 rows of texts
SPOOLED_BYTES = 1 << 20  # 1 MiB: a unit of any size takes the same

# Planning: rows of a sidecar that are looked at together. A unit of tiny documents has a million.
PLANNED_ROWS = 1 << 16

# Rows of a partition: 24 bytes each while sorted, some 200 if they are duplicates. Rows that wait
# for a place in a file: some 2 MiB.
LEAST_PARTITION_ROWS = 1 << 15
MOST_PARTITION_ROWS = 1 << 22
WAITING_ROWS = 1 << 16
WAITING_BYTES = 16 << 20  # 16 MiB: fewer rows, if they are images

# Exact duplicates that are joined to clusters at a time, some 400 bytes each.
REPEATED_ROWS = 1 << 13

# Planning in rounds: bytes of an exchange that a request reads; up to 17 of them wait.
EXCHANGED_BYTES = 4 << 20  # 4 MiB

# Records of clusters with near duplicates that are looked up (some 400 bytes each).
CLUSTERED_RECORDS = 1 << 17

# Edges of components of near duplicates that one worker connects (130 bytes each for a moment).
LEFT_EDGES = 1 << 23

# Near duplicates of documents: those whose signatures are looked up (a KiB each), shingles that a
# thread verifies (some 100 MiB of temporary arrays), candidates that are known to be none (128
# MiB), pairs with records of earlier generations; in rounds, shingles that wait for the documents
# that they are compared with (64 MiB), and candidates of a task (40 MiB).
LOOKED_UP_DOCUMENTS = 1 << 16
VERIFIED_SHINGLES = 1 << 21
REJECTED_PAIRS = 1 << 24
ACROSS_PAIRS = 1 << 13
RECEIVED_SHINGLES = 1 << 24
RECEIVED_CANDIDATES = 1 << 20

# Near duplicates of images: entries of a table of buckets (28 bytes each, and up to 8 of the
# buckets; 14 entries an image), rows whose 70 probes are looked up (some 2 MiB a temporary array),
# entries that are compared (some 50 MiB), pairs whose thumbnails are fetched (75 MiB, for a moment
# four times; each time may open every unit), thumbnails that are hashed.
TABLE_ENTRIES = 1 << 25
PROBED_ROWS = 1 << 12
COMPARED_ENTRIES = 1 << 20
FETCHED_PAIRS = 1 << 15
HASHED_THUMBNAILS = 1 << 14

# Merging and sharding: payload, and rows of the sidecars. Examples that are built together.
BLOCK_BYTES = 512 << 20  # 512 MiB
BLOCK_ROW_BYTES = 256 << 20  # 256 MiB
RUN_BYTES = 2 << 30  # 2 GiB: on the disk
EXAMPLE_BYTES = 4 << 20  # 4 MiB

# Commit: rows of a column that is summarized.
SUMMARIZED_ROWS = 1 << 16

# Compaction: rows of an index that are merged (some 200 bytes each, for a moment four times);
# frames that are copied, per thread.
MERGED_ROWS = 1 << 16
COPIED_FRAME_BYTES = 2 << 20  # 2 MiB
