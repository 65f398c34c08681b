"""What lies beside TFRecord files: class names, and notes that hold no record."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shard_format import InputError, Manifest, load_manifest, naming

_NOTES = (
    naming.FEATURES,
    naming.DATASET_INFO,
    naming.MANIFEST,
    naming.BUILD,
    "metadata.json",
    "_SUCCESS",
)
_LABELS = ".labels.txt"  # TFDS: a class name a line


class Names(NamedTuple):
    """What a folder says of its files.

    Attributes:
        names: Of the classes.
        digest: A hash of them: units of other names differ.
        raw: Features with pictures that are bare pixels, in a shard set of --encoding raw.
    """

    names: tuple[str, ...]
    digest: str
    raw: tuple[str, ...] = ()


def describes(path: bytes) -> bool:
    """Whether a file describes the TFRecord files beside it, and holds no record itself."""
    name = os.fsdecode(os.path.basename(path))
    return name in _NOTES or name.endswith(_LABELS)


def set_files(root: Path) -> set[bytes] | None:
    """The shards of the shard set in a folder; None if there is no set.

    Raises:
        ShardSetError: The set is of another format version.
        DamageError: Its manifest is not what was written.
        InputError: A shard is missing.
    """
    manifest = _manifest(root)
    if manifest is None:
        return None
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    missing = [shard.file for shard in shards if not (root / shard.file).is_file()]
    if missing:
        raise InputError(
            f"a shard set must have every shard that its manifest names, got no {missing[0]!r} "
            f"in {root}. Run 'shardmill verify' on it, and restore what is missing."
        )
    return {os.fsencode(root / shard.file) for shard in shards}


class ShardSets:
    """Which files of a corpus are shards of sets that lie in it; their notes are no records.

    Args:
        roots: Of the corpus; no set is looked for above them.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._sets: dict[bytes, set[bytes] | None] = {}
        self._shortest = min((len(os.fsencode(root)) for root in roots), default=0)

    def around(self, folder: bytes) -> set[bytes] | None:
        """The shards of the set that a folder is, or lies in; None if there is none."""
        if folder not in self._sets:
            found = set_files(Path(os.fsdecode(folder)))
            above = os.path.dirname(folder)
            if found is None and len(above) >= self._shortest and above != folder:
                found = self.around(above)
            self._sets[folder] = found
        return self._sets[folder]


def known_names(folder: bytes, column: str) -> Names:
    """The class names that a folder gives the numbers of a feature in its files."""
    root = Path(os.fsdecode(folder))
    manifest, names, raw = _manifest(root), list[str](), tuple[str, ...]()
    if manifest is not None:
        raw = tuple(one.name for one in manifest.schema.features if one.encoding == "raw")
        features = [one for one in manifest.schema.features if one.name == column]
        names = [name for feature in features for name in feature.class_names]
    else:
        try:
            text = (root / f"{column}{_LABELS}").read_text(encoding="utf-8")
            names = [line.strip() for line in text.splitlines() if line.strip()]
        except (OSError, ValueError):
            names = []
    digest = hashlib.blake2b(json.dumps(names).encode(), digest_size=6).hexdigest()
    return Names(tuple(names), digest if names else "", raw)


def _manifest(root: Path) -> Manifest | None:
    """The manifest of a shard set; None if another program's file has that name."""
    try:
        raw = json.loads((root / naming.MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(raw, dict) or not {"format_version", "root_hash", "schema"} <= set(raw):
        return None
    return load_manifest(root)
