"""The shards of a split: in the manifest, or for a large split in a file beside its index.

A manifest with a line for each of some 100,000 shards takes seconds and gigabytes to parse. So the
manifest of such a split has their number, and this Arrow file has them, some 90 bytes each. It is
read when a shard is asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import override

from foundation import storage
from foundation.checksums import file_sha256
from foundation.errors import DamageError, ShardSetError
from foundation.storage import Place
from shard_format.set_paths import is_in_set

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_COLUMNS = ("file", "records", "bytes", "sha256")
_BATCH_ROWS = 1 << 14  # that are Python objects at a time


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """One shard: file name relative to the set, number of records, bytes, SHA-256 in hex."""

    file: str
    records: int
    bytes: int
    sha256: str


class ShardList(Sequence[ShardInfo]):
    """The shards of a split in reading order, from their file, which is opened by the first use.

    Args:
        place: The file.
        num_shards: Number of shards.
        records: Records of all shards.
        bytes: Bytes of all shards.
        sha256: SHA-256 of the file, in hex.
        folder: Folder of the set below which they are, for now; see `compaction`.

    Raises:
        ShardSetError: The file is missing; raised by the first use.
        DamageError: It is not what the manifest says; raised by the first use.
    """

    def __init__(
        self,
        place: Place,
        num_shards: int,
        records: int,
        bytes: int,
        sha256: str,
        folder: str = "",
    ) -> None:
        self.num_shards, self.records, self.bytes = num_shards, records, bytes
        self._place, self._sha256 = place, sha256
        self._folder = f"{folder}/" if folder else ""

    def below(self, folder: str) -> ShardList:
        """The same shards in another folder of the set."""
        numbers = (self.num_shards, self.records, self.bytes)
        return ShardList(self._place, *numbers, self._sha256, folder)

    def column(self, name: str) -> Any:
        """[num_shards] int64, "records" or "bytes" of every shard."""
        return self._table[name].to_numpy()

    @functools.cached_property
    def _table(self) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            data = storage.read_bytes(self._place)
            # A name with a flipped bit would be that of a file which is nowhere.
            if hashlib.sha256(data).hexdigest() != self._sha256:
                raise DamageError(
                    f"The list of shards {self._place} does not match its SHA-256. Run 'shardmill "
                    "repair'."
                )
            table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
            table = table.select(_COLUMNS).cast(_schema())
            sums = [pc.sum(table[name]).as_py() or 0 for name in ("records", "bytes")]
        except FileNotFoundError as error:
            raise ShardSetError(
                f"The list of shards {self._place} is missing. Copy the whole set, or run "
                "'shardmill repair'."
            ) from error
        except (pa.ArrowException, KeyError, OSError) as error:
            raise DamageError(
                f"The list of shards {self._place} is not a whole Arrow file: {error}. Run "
                "'shardmill verify'."
            ) from error
        if [len(table), *sums] != [self.num_shards, self.records, self.bytes]:
            raise DamageError(
                f"The list of shards {self._place} has {len(table)} shards of {sums[0]} records "
                f"and {sums[1]} bytes, but {self.num_shards} of {self.records} and {self.bytes} in "
                "the manifest. Run 'shardmill verify'."
            )
        return table.combine_chunks()

    @functools.cached_property
    def _whole_columns(self) -> list[pa.Array | pa.ChunkedArray]:
        """Columns, in which a shard is found at once where they are in one piece."""
        columns = [self._table[name] for name in _COLUMNS]
        return [one.chunk(0) if one.num_chunks == 1 else one for one in columns]

    def _info(self, file: str, records: int, size: int, sha256: bytes) -> ShardInfo:
        if not is_in_set(file) or records < 0 or size < 0:
            raise DamageError(
                f"{self._place} names a file outside of its set, or one of less than no bytes: "
                f"{file!r}. Do not use this set unless you know who wrote it; build it again."
            )
        return ShardInfo(self._folder + file, records, size, sha256.hex())

    @override
    def __len__(self) -> int:
        return self.num_shards

    @overload
    def __getitem__(self, place: int) -> ShardInfo: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[ShardInfo, ...]: ...

    @override
    def __getitem__(self, place: int | slice) -> ShardInfo | tuple[ShardInfo, ...]:
        if isinstance(place, slice):
            first, end, step = place.indices(self.num_shards)
            if step != 1:
                return tuple(self)[place]
            rows = self._table.slice(first, max(0, end - first))
            return tuple(map(self._info, *(rows[name].to_pylist() for name in _COLUMNS)))
        return self._info(*(column[place].as_py() for column in self._whole_columns))

    @override
    def __iter__(self) -> Iterator[ShardInfo]:
        for batch in self._table.to_batches(max_chunksize=_BATCH_ROWS):
            columns = (batch[name].to_pylist() for name in _COLUMNS)
            yield from map(self._info, *columns)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    @override
    def __hash__(self) -> int:
        return hash(self._sha256)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """As it was before the first use: a pickled table would be a copy of the file."""
        numbers = (self.num_shards, self.records, self.bytes)
        return ShardList, (self._place, *numbers, self._sha256, self._folder.removesuffix("/"))


def shard_numbers(shards: Sequence[ShardInfo], name: str) -> npt.NDArray[np.int64]:
    """[num_shards] int64: "records" or "bytes" of every shard."""
    import numpy as np

    if isinstance(shards, ShardList):
        return np.asarray(shards.column(name), np.int64)
    return np.array([getattr(shard, name) for shard in shards], np.int64)


@contextlib.contextmanager
def shard_list_writer(
    place: Place, *, scratch: Path | None = None
) -> Iterator[Callable[[ShardInfo], None]]:
    """Writes the file of a `ShardList`, durably, with some shards in memory at a time.

    In the context is a function that adds a shard behind the others. The file gets its name, whole,
    at the end.

    Args:
        place: The file.
        scratch: See `storage.create`.
    """
    import pyarrow as pa

    schema, waiting = _schema(), list[ShardInfo]()

    def flush() -> None:
        rows = [(one.file, one.records, one.bytes, bytes.fromhex(one.sha256)) for one in waiting]
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        waiting.clear()

    def append(shard: ShardInfo) -> None:
        waiting.append(shard)
        if len(waiting) == _BATCH_ROWS:
            flush()

    with (
        storage.create_arrow(place, durable=True, scratch=scratch) as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        yield append
        if waiting:
            flush()


def write_shard_list(
    place: Place, shards: Iterable[ShardInfo], *, scratch: Path | None = None
) -> ShardList:
    """Writes the file of a `ShardList`, durably, and returns that list.

    Args:
        place: The file.
        shards: Shards of the split in reading order; some are in memory at a time.
        scratch: See `storage.create`.
    """
    number = records = size = 0
    with shard_list_writer(place, scratch=scratch) as append:
        for shard in shards:
            append(shard)
            number, records, size = number + 1, records + shard.records, size + shard.bytes
    return ShardList(place, number, records, size, file_sha256(place))


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = (pa.string(), pa.int64(), pa.int64(), pa.binary(32))
    pairs = zip(_COLUMNS, kinds, strict=True)
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in pairs])
