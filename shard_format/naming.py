"""Every file name of a shard set, and the way back from a name to its parts."""

from __future__ import annotations

import re
from typing import NamedTuple

from foundation.errors import UsageError

MANIFEST = "manifest.json"
BUILD = "build.json"  # everything that is not reproducible: times, versions, throughput
FEATURES = "features.json"  # TFDS
DATASET_INFO = "dataset_info.json"  # TFDS
CROISSANT = "croissant.json"  # MLCommons Croissant
LABELS_SUFFIX = ".labels.txt"  # TFDS: NAME.labels.txt has the class names of label NAME
DUPLICATES = "duplicates.parquet"  # clusters of duplicates
DUPLICATES_DIR = "duplicates"  # the same in parts, where there are many; only then of the set
REMOVED = "removed.txt"  # hashes of the records that the set keeps out
REMOVED_COPY = "removed.copy.txt"  # the same: a repair cannot always have it otherwise
# The tokenizer of a set of token ids: Hugging Face tokenizers JSON, or a SentencePiece model.
TOKENIZERS = {"json": "tokenizer.json", "model": "tokenizer.model"}
REPORT = "report.html"  # derived from the other files, so the manifest does not name it
CARD = "README.md"  # a card of the data set; derived too, and may be edited by hand
INDEX_DIR = "index"
QUARANTINE_DIR = "quarantine"
SHARDS_SUFFIX = ".shards.arrow"  # index/SPLIT.shards.arrow: the shards of a large split
EXPORTED_SUFFIX = ".idx"  # index/SHARD.idx, for other readers
GENERATIONS_DIR = "generations"  # of what was appended
COMPACTED_DIR = f"{GENERATIONS_DIR}/compacted"  # the result of `compact`, until it has its place
COMPACT_STATE = f"{GENERATIONS_DIR}/compact.json"  # while a compaction is not at its end
FINGERPRINTS_DIR = "fingerprints"  # what later generations are compared with
STORED_RECORDS = f"{FINGERPRINTS_DIR}/records.arrow"
READ_ITEMS = f"{FINGERPRINTS_DIR}/items.arrow"  # what a build has read: hashes of files
FINGERPRINT_FILES = (STORED_RECORDS, READ_ITEMS)
# Folders of a set, besides that of its generations.
FOLDERS = (INDEX_DIR, QUARANTINE_DIR, DUPLICATES_DIR, FINGERPRINTS_DIR)
WORK_DIR = ".shardmill"  # of a build in progress; removed at its end

_TEMPORARY = re.compile(r"\.(.+\.)?[0-9a-f]{32}(\.part)?")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Of the set itself, or of an appended generation.
_FOLDER = rf"(?P<folder>(?:{GENERATIONS_DIR}/\w+/)?)"
_QUARANTINE = re.compile(rf"{_FOLDER}{QUARANTINE_DIR}/part-\d{{5,}}\.parquet")
_DUPLICATES = re.compile(rf"{_FOLDER}{re.escape(DUPLICATES)}")
# A part of the duplicates of the set, or of a generation.
DUPLICATES_PART = re.compile(rf"{_FOLDER}{DUPLICATES_DIR}/part-\d{{5,}}\.parquet")
_SHARD = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*)-(?P<split>[a-z][a-z0-9_]*)"
    r"\.tfrecord-(?P<shard>\d{5,})-of-(?P<count>\d{5,})"
)


class ShardName(NamedTuple):
    """The parts of a shard's file name; `shard` is in [0, num_shards)."""

    name: str
    split: str
    shard: int
    num_shards: int


def is_name(name: str) -> bool:
    """Whether a name of a set or a split may be part of a file name; see `check_name`."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str, what: str) -> str:
    """The name itself, if it may be part of a file name.

    Raises:
        UsageError: It is not lower-case letters, digits and underscores that begin with a letter.
    """
    if not is_name(name):
        raise UsageError(
            f"{what} {name!r} cannot be part of a file name that TFDS reads. Use lower-case "
            "letters, digits and underscores, beginning with a letter."
        )
    return name


def shard_file(name: str, split: str, shard: int, num_shards: int) -> str:
    """The file name of one shard, as TFDS expects it: NAME-SPLIT.tfrecord-00000-of-00032."""
    return f"{name}-{split}.tfrecord-{shard:05d}-of-{num_shards:05d}"


def parse_shard_file(file: str) -> ShardName | None:
    """The inverse of `shard_file`, or None if the file is not a shard."""
    match = _SHARD.fullmatch(file)
    if match is None:
        return None
    return ShardName(match["name"], match["split"], int(match["shard"]), int(match["count"]))


def index_file(split: str) -> str:
    """The index of one split, relative to the shard set."""
    return f"{INDEX_DIR}/{split}.arrow"


def index_part_file(split: str, part: int) -> str:
    """One part of the index of a large split, relative to the shard set; see FORMAT.md."""
    return f"{INDEX_DIR}/{split}-{part:05d}.arrow"


def shards_file(split: str) -> str:
    """The list of the shards of a large split, relative to the shard set; see FORMAT.md."""
    return f"{INDEX_DIR}/{split}{SHARDS_SUFFIX}"


def table_files(split: str, parts: int = 0) -> list[str]:
    """The index of one split as tables for Croissant, relative to the shard set.

    Args:
        split: Name of the split.
        parts: Number of parts of its index; 0 where that is one file.
    """
    if not parts:
        return [f"{INDEX_DIR}/{split}.parquet"]
    return [f"{INDEX_DIR}/{split}-{part:05d}.parquet" for part in range(parts)]


def below(folder: str, name: str) -> str:
    """The name of a file in a folder of the set; an empty one is the set itself."""
    return f"{folder}/{name}" if folder else name


def generation_folder(number: int) -> str:
    """The folder of an appended generation, relative to the shard set; of the first its notes."""
    return f"{GENERATIONS_DIR}/{number:04d}"


def view_folder(number: int) -> str:
    """The folder that has the index of all generations up to an appended one."""
    return f"{generation_folder(number)}/view"


def view_file(number: int) -> str:
    """The manifest of all generations up to one; not named as that of a folder that is a set."""
    return f"{generation_folder(number)}/view.json"


def quarantine_file(part: int) -> str:
    """One part of the quarantine, relative to the shard set."""
    return f"{QUARANTINE_DIR}/part-{part:05d}.parquet"


def duplicates_file(part: int, parts: int) -> str:
    """One part of the duplicates, or the only one, relative to the shard set."""
    return f"{DUPLICATES_DIR}/part-{part:05d}.parquet" if parts > 1 else DUPLICATES


def parse_quarantine(file: str) -> re.Match[str] | None:
    """The `folder` of a part of the quarantine, relative to the set; None for another file."""
    return _QUARANTINE.fullmatch(file)


def parse_duplicates(file: str) -> re.Match[str] | None:
    """The `folder` of a file with duplicates, relative to the set; None for another file."""
    return DUPLICATES_PART.fullmatch(file) or _DUPLICATES.fullmatch(file)


def is_temporary(name: str) -> bool:
    """Whether a file is one that a command was about to name when it was killed, or is now."""
    return _TEMPORARY.fullmatch(name) is not None


def labels_file(label: str) -> str:
    """Name of the file with the class names of a label; of "objects/label" it has a "-"."""
    return f"{label.replace('/', '-')}{LABELS_SUFFIX}"
