"""Where an index contradicts records in their kept columns, though the bytes of both are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foundation import storage
from foundation.errors import ShardmillError
from foundation.storage import Place
from shard_format.damaged_records import Damage
from shard_format.example import decode_example
from shard_format.feature_values import from_stored
from shard_format.kept_columns import KEPT_TYPES, index_values, is_in_index
from shard_format.manifest import Manifest
from shard_format.schema import KEPT_IN_INDEX, Feature
from shard_format.tfrecord import unframe

_CAPTIONS = ("caption", "caption_length")
_COMPARED = 64  # records of a part of an index: comparing all would decode the whole set


def kept_damages(
    directory: Place, manifest: Manifest, index: pa.Table, file: str, shard: str | None
) -> Iterator[Damage]:
    """Yields a damage for each kept column that is missing, or has other values than records.

    Args:
        directory: The set.
        manifest: Manifest of the set.
        index: An index, or a part of it; its first rows are compared.
        file: Name of its file.
        shard: Name of the shard of the first row; None if there is none to compare with.
    """
    has_kept = manifest.config.get(KEPT_IN_INDEX)
    # Captions are features of their own: no column keeps them.
    own = _CAPTIONS if manifest.config.get("caption_column") else ()
    kept = [one for one in manifest.schema.kept if is_in_index(one) and one.name not in own]
    kept = kept if has_kept else []
    for feature in kept:
        must = KEPT_TYPES[feature.kind]
        at = index.schema.get_field_index(feature.name)
        if at < 0 or index.schema.field(at).type != must:
            yield Damage(file, f"must have the kept column {feature.name!r}, of {must}")
            return
    if not kept or shard is None:
        return
    rows = index.slice(0, _COMPARED)
    rows = rows.filter(pc.equal(rows["shard"], rows["shard"][0])) if len(rows) else rows
    try:
        records = _records(directory / shard, rows)
        for feature in kept:
            values = [_value(record, feature) for record in records]
            if not rows[feature.name].combine_chunks().equals(index_values(values, feature.kind)):
                yield Damage(file, f"has other values of {feature.name!r} than records of {shard}")
    except (ShardmillError, OSError, LookupError, ValueError, TypeError, AttributeError) as error:
        yield Damage(file, f"cannot be compared with records of {shard}: {error}")


def _records(shard: Place, rows: pa.Table) -> list[dict[str, Any]]:
    ranges = zip(rows["offset"].to_pylist(), rows["length"].to_pylist(), strict=True)
    frames = storage.read_ranges(shard, ranges)
    return [decode_example(unframe(framed, str(shard))) for framed in frames]


def _value(record: dict[str, Any], feature: Feature) -> Any:
    return from_stored(feature, [record[part.name] for part in feature.stored])
