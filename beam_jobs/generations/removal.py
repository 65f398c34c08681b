"""What a removal leaves behind: hashes of the records in `removed.txt`, and a receipt.

Neither names a record: the receipt in build.json has numbers, files and a hash of all ids.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.generations.leftovers import Found, stored_files
from beam_jobs.stages.plan.appending import StoredExamples
from beam_jobs.workspace import read_batches
from foundation.storage import Place
from shard_format import Manifest
from shard_format.index_parts import index_tables
from shard_format.removed_records import RemovedRecords, id_digest

RECEIPTS_KEY = "removals"  # in build.json: the receipts, the oldest first
_COLUMNS = ["key", "record_id", "fingerprint"]


def removed_records(base: Place, manifest: Manifest, found: Found) -> RemovedRecords:
    """The records that are taken out of a set, and their content unless other records have it.

    Args:
        base: The set.
        manifest: Manifest of the set.
        found: The records.
    """
    ids = frozenset(map(id_digest, found.ids | found.equal))
    return RemovedRecords(ids, _contents(base, manifest, found.ids))


def _contents(base: Place, manifest: Manifest, ids: frozenset[str]) -> frozenset[str]:
    wanted = pa.array(sorted(ids), pa.string())
    keeps_files = str(manifest.config.get("quality", "")).startswith("keep")

    def stored() -> Iterator[pa.Table]:
        # Of equal fingerprints of such images the pixels decide, which only the shards have.
        for file in () if keeps_files else stored_files(base, manifest):
            yield from read_batches(base / file, [*_COLUMNS, "split"])

    def kept() -> Iterator[pa.Table]:
        if manifest.config.get("pack"):  # rows of the index are sequences
            yield from (table.filter(pc.is_valid(table["split"])) for table in stored())
        else:
            for split in manifest.splits:
                yield from index_tables(base, manifest, split, _COLUMNS)

    own = set[tuple[int, bytes]]()
    for table in itertools.chain(kept(), stored()):
        own |= _rows(table, pc.is_in(table["record_id"], value_set=wanted), keyed=keeps_files)
    prints = pa.array(sorted({fingerprint for _, fingerprint in own}), pa.binary())
    others = set[tuple[int, bytes]]()
    for table in kept():
        others |= _rows(table, _with(table, prints, wanted), keyed=keeps_files)
    if not keeps_files:
        return frozenset(fingerprint.hex() for _, fingerprint in own - others)
    from beam_jobs.record_types.image import all_pixels_hash  # loads image libraries

    keys = np.array([key for key, _ in own | others], np.uint64)
    examples = StoredExamples(base, manifest, keys)

    def name(row: tuple[int, bytes]) -> str:
        key, fingerprint = row
        return fingerprint.hex() + all_pixels_hash(examples(key)).hex()

    return frozenset(map(name, own)) - frozenset(map(name, others))


def _with(table: pa.Table, prints: pa.Array, ids: pa.Array) -> pa.ChunkedArray:
    """Returns which rows have one of some fingerprints, and none of some ids."""
    same = pc.is_in(table["fingerprint"].cast(pa.binary()), value_set=prints)
    return pc.and_not(same, pc.is_in(table["record_id"], value_set=ids))


def _rows(table: pa.Table, mask: pa.ChunkedArray, *, keyed: bool) -> set[tuple[int, bytes]]:
    """The (key, fingerprint) of the rows in a mask; with 0 for the key where it is not `keyed`."""
    rows = table.select(["key", "fingerprint"]).filter(mask)
    keys = rows["key"].to_pylist() if keyed else [0] * len(rows)
    return set(zip(keys, rows["fingerprint"].to_pylist(), strict=True))


def receipt(digest: str, asked: int, found: Found, before: Manifest, after: str) -> dict[str, Any]:
    """Returns the receipt of a removal, which names no record.

    Args:
        digest: Hash of all ids that were asked for.
        asked: Number of these.
        found: The records that were there.
        before: The manifest of the set that had them.
        after: Root hash of the set without them.
    """
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "ids_sha256": digest,
        "asked": asked,
        "found": len(found.ids),
        "removed": {
            "records": found.removed,
            "kept": found.kept,
            "copies": found.copies,
            "duplicates": found.duplicates,
            "rejected": sum(found.reasons.values()),
            "duplicates_of_removed": found.through,
        },
        "files": list(found.files),
        "root_hash_before": before.root_hash,
        "root_hash_after": after,
    }


def receipts_in(builds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns all receipts in the build.json of some builds."""
    return [dict(one) for build in builds for one in build.get(RECEIPTS_KEY, ())]
