"""removed.txt: the records that a set keeps out, as hashes that name nobody.

It has a line for every record that was removed, or that was kept out from the start:

    id       BLAKE2b of the record id in UTF-8, 16 bytes
    content  the fingerprint of the index; of images with --quality keep, where equal fingerprints
             do not suffice, followed by half of the SHA-256 over all pixels

Lines are sorted, and each is there once, so the bytes follow from the records alone.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from foundation import storage
from foundation.errors import DamageError
from foundation.storage import Place
from shard_format import naming
from shard_format.manifest import Manifest

_RESTORE = "Run 'shardmill repair' on the set, or restore the file from a copy."
PRINT_DIGITS = 32  # of a fingerprint, with which every content begins
_LINE = re.compile(r"id ([0-9a-f]{32})|content ([0-9a-f]{32}(?:[0-9a-f]{32})?)")


class RemovedRecords(NamedTuple):
    """Records that a set keeps out.

    Attributes:
        ids: Hashes of their ids, in hex, see `id_digest`.
        contents: Fingerprints of their content, in hex.
    """

    ids: frozenset[str] = frozenset()
    contents: frozenset[str] = frozenset()

    def joined(self, other: RemovedRecords) -> RemovedRecords:
        """The records of both."""
        return RemovedRecords(self.ids | other.ids, self.contents | other.contents)

    def without(self, other: RemovedRecords) -> RemovedRecords:
        """The records that the other one lacks."""
        return RemovedRecords(self.ids - other.ids, self.contents - other.contents)

    def has_id(self, record_id: str) -> bool:
        """Whether the record with this id is kept out."""
        return id_digest(record_id) in self.ids

    def to_bytes(self) -> bytes:
        """The content of removed.txt."""
        lines = [f"content {one}\n" for one in self.contents] + [f"id {one}\n" for one in self.ids]
        return "".join(sorted(lines)).encode()


def id_digest(record_id: str) -> str:
    """The hash of a record id, in hex."""
    return hashlib.blake2b(record_id.encode(), digest_size=16).hexdigest()


def parse_removed(data: bytes, path: str) -> RemovedRecords:
    """The records in a removed.txt.

    Raises:
        DamageError: It is not as shardmill writes them.
    """
    ids, contents = set(), set()
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise DamageError(f"Line {number:,} of {path} names no hash: {line[:60]!r}. {_RESTORE}")
        ids |= {match[1]} - {None}
        contents |= {match[2]} - {None}
    return RemovedRecords(frozenset(ids), frozenset(contents))


def removed_files(manifest: Manifest) -> list[str]:
    """Names of the lists of a set, one for each generation that added to it."""
    return [name for name in manifest.files if name.rpartition("/")[2] == naming.REMOVED]


def read_removed(directory: Place, manifest: Manifest) -> RemovedRecords:
    """The records that all generations of a set keep out.

    Args:
        directory: The set.
        manifest: Its manifest, or that of a view.

    Raises:
        DamageError: A list is missing or damaged, so that removed records would come back.
    """
    removed = RemovedRecords()
    for name in removed_files(manifest):
        place = directory / name
        try:
            data = storage.read_bytes(place)
        except FileNotFoundError:
            data = b""
        if hashlib.sha256(data).hexdigest() != manifest.files[name]["sha256"]:
            raise DamageError(
                f"{place}, the list of records that were removed from the set, is missing or "
                f"damaged: they would come back. {_RESTORE}"
            )
        removed = removed.joined(parse_removed(data, str(place)))
    return removed
