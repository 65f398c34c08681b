"""Damage, and the records of a damaged shard: which are whole, and where the others begin.

With the index every record is checked by itself, so a damaged length hides no record behind it.
Without, frames are read one by one up to the first that is damaged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foundation import storage
from foundation.errors import DamageError, ShardmillError
from foundation.storage import Place
from shard_format.index import open_index
from shard_format.keys import id_hash, shuffle_keys
from shard_format.tfrecord import FRAME_BYTES, read_records, unframe

IntArray = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class DamagedRecord:
    """A record that cannot be read.

    Attributes:
        offset: First byte of its frame in the shard; for a row of an index, the row.
        record_id: Its id; None if no index says it.
        problem: What was found.
    """

    offset: int
    record_id: str | None
    problem: str

    def __str__(self) -> str:
        return f"record {self.record_id!r}: {self.problem}" if self.record_id else self.problem


@dataclasses.dataclass(frozen=True)
class Damage:
    """A damaged file, or one that is not part of the set.

    Attributes:
        file: Its name relative to the set.
        problem: What was found.
        records: Its damaged records, or damaged rows of an index, as far as they can be found.
        same_as: The file of the set that has this very content; "" if none does.
        is_extra: Whether it is not part of the set.
        is_note: Whether the set is whole all the same: a file that a command writes again, or one
            that a killed command left.
    """

    file: str
    problem: str
    records: tuple[DamagedRecord, ...] = ()
    same_as: str = ""
    is_extra: bool = False
    is_note: bool = False


def whole_frames(place: Place, rows: pa.Table) -> Iterator[bytes | str]:
    """For every row of the index of a shard its frame; a text says why there is no whole one.

    Raises:
        OSError: The shard cannot be read.
    """
    offsets, lengths = rows["offset"].to_pylist(), rows["length"].to_pylist()
    ranges = list(zip(offsets, lengths, strict=True))
    for (offset, length), framed in zip(ranges, storage.read_ranges(place, ranges), strict=True):
        where = f"{place.name} at byte {offset}"
        if len(framed) < length:
            yield f"the file ends before or inside the record in {where}"
            continue
        try:
            unframe(framed, where)
        except DamageError as error:
            yield str(error)
        else:
            yield framed


def damaged_records(place: Place, rows: pa.Table | None) -> list[DamagedRecord]:
    """The damaged records of a shard; none if all frames of the file are whole.

    Args:
        place: The shard.
        rows: Its rows of the index; None if the index cannot be trusted.

    Raises:
        OSError: It cannot be read.
    """
    first = _first_damaged_frame(place)
    if rows is None:
        return [first] if first else []
    damaged = [
        DamagedRecord(offset, record_id, frame)
        for frame, offset, record_id in zip(
            whole_frames(place, rows),
            rows["offset"].to_pylist(),
            rows["record_id"].to_pylist(),
            strict=True,
        )
        if isinstance(frame, str)
    ]
    if first is None and len(damaged) == len(rows):
        return []  # whole frames, but of other records
    return damaged or ([first] if first else [])


def _first_damaged_frame(place: Place) -> DamagedRecord | None:
    offset = 0
    try:
        for begin, payload in read_records(place):
            offset = begin + len(payload)
    except DamageError as error:
        return DamagedRecord(_offset_in(str(error), offset), None, str(error))
    return None


def _offset_in(message: str, otherwise: int) -> int:
    number = message.rpartition(" at byte ")[2]
    return int(number) if number.isdigit() else otherwise


def damaged_rows(
    place: Place, shard_bytes: Sequence[int], seed: int | None, first: int = 0
) -> list[DamagedRecord]:
    """The rows of a damaged index that contradict their record id or the row before them.

    Nothing can be said of other columns than shard, offset, length, key and record id.

    Args:
        place: The index.
        shard_bytes: Size of every shard.
        seed: Seed of the shuffle keys; None if they are not those of the record ids alone.
        first: The first shard whose rows it has.
    """
    try:
        index = open_index(place)
        index.validate(full=True)  # damaged string offsets would be read beyond the file
        names = ("shard", "offset", "length")
        shard, offset, length = (np.asarray(index[name].to_numpy(), np.int64) for name in names)
        key = np.asarray(index["key"].to_numpy(), np.uint64)
        ids = index["record_id"].to_pylist()
        problems = dict(_misplaced(shard, offset, length, shard_bytes, first))
        if seed is not None:
            keys = shuffle_keys([id_hash(one) for one in ids], seed)
            for row in np.flatnonzero(keys != key).tolist():
                problems.setdefault(row, "its key is not that of its record id")
    except (ShardmillError, pa.ArrowException, OSError, ValueError, TypeError, AttributeError):
        return []
    return [DamagedRecord(row, ids[row], f"row {row}: {problems[row]}") for row in sorted(problems)]


def _misplaced(
    shard: IntArray, offset: IntArray, length: IntArray, shard_bytes: Sequence[int], first: int
) -> Iterator[tuple[int, str]]:
    """Yields (row, why) where records do not follow one another through the shards."""
    number, end = first - 1, 0
    for row, (of, begin, size) in enumerate(
        zip(shard.tolist(), offset.tolist(), length.tolist(), strict=True)
    ):
        if of == number + 1 and (number < first or end == shard_bytes[number]):
            number, end = of, 0
        if of != number:
            yield row, f"it is in shard {of}, between records of shard {number}"
        elif begin != end:
            yield row, f"it begins at byte {begin}, the record before it ends at byte {end}"
        elif size < FRAME_BYTES or begin + size > shard_bytes[number]:
            yield row, f"it has {size} bytes, its shard {shard_bytes[number]}"
        else:
            end += size
            continue
        return  # those behind it would all seem misplaced
