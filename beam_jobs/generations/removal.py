"""What a removal leaves behind: hashes of the records in `removed.txt`, and a receipt.

Neither names a record: the receipt in build.json has numbers, files and a hash of all ids.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.generations.leftovers import Found, stored_files
from beam_jobs.stages.plan.appending import StoredExamples
from beam_jobs.workspace import read_table
from foundation.storage import Place
from shard_format import Manifest, open_split_index
from shard_format.removed_records import PRINT_DIGITS, RemovedRecords, id_digest

RECEIPTS_KEY = "removals"  # in build.json: the receipts, the oldest first


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
    # Of equal fingerprints of such images the pixels decide, which only the shards have.
    stored = [] if keeps_files else [read_table(base / one) for one in stored_files(base, manifest)]
    if manifest.config.get("pack"):  # rows of the index are sequences
        kept = [table.filter(pc.is_valid(table["split"])) for table in stored]
    else:
        kept = [open_split_index(base, manifest, split) for split in manifest.splits]
    examples = StoredExamples(base, manifest) if keeps_files else None

    def name(row: Mapping[str, Any]) -> str:
        content: str = row["fingerprint"].hex()
        if examples is not None:
            from beam_jobs.record_types.image import all_pixels_hash  # loads image libraries

            content += all_pixels_hash(examples(row["key"])).hex()
        return content

    own = {
        name(row)
        for table in (*kept, *stored)
        for row in _rows(table, pc.is_in(table["record_id"], value_set=wanted))
    }
    prints = pa.array([bytes.fromhex(one[:PRINT_DIGITS]) for one in sorted(own)], pa.binary())
    others = {name(row) for table in kept for row in _rows(table, _with(table, prints, wanted))}
    return frozenset(own - others)


def _with(table: pa.Table, prints: pa.Array, ids: pa.Array) -> pa.ChunkedArray:
    """Returns which rows have one of some fingerprints, and none of some ids."""
    same = pc.is_in(table["fingerprint"].cast(pa.binary()), value_set=prints)
    return pc.and_not(same, pc.is_in(table["record_id"], value_set=ids))


def _rows(table: pa.Table, mask: pa.ChunkedArray) -> Iterator[dict[str, Any]]:
    yield from table.select(["key", "fingerprint"]).filter(mask).to_pylist()


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
