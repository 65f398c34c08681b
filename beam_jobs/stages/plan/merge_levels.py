"""How many merge levels lie between staged units and shards: a function of sizes and prices alone.

A shard has records of every unit. Read from the units, that is a range, and an open sidecar, for
each pair of unit and shard: 256 million for 1 TB. A merge level turns `fan_in` neighbouring inputs
into runs that are sorted like the shards, so a shard then reads one cell of each run:

    level 1   each group of units becomes one run over all shards
    level 2   each group of runs becomes a run for every bucket, a range of shards
    shards    each reads one cell of every last run that has its bucket

A run consists of cells, one for each reader, so every input of every task is one contiguous
stretch of one object. Buckets keep tasks at the size of one block of memory however many levels
there are, so they spread over all workers, and a killed one has little to redo.

A block of payload (512 MiB) is read at a time, from each of at most 64 inputs: ranges of 8 MiB,
which is one request. Shorter ones cost more in requests than the copying that they save; longer
ones need more memory or more levels. A shard of 128 MiB is one block, and reads one range from
each of at most 16 inputs, 8 MiB again. A worker holds the block, the rows of its task, which are
limited too, and the ranges in flight (`MergeLimits.memory_bytes`, 1.1 GiB).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from beam_jobs import bounds
from beam_jobs.staging.units import aimed_unit_bytes
from foundation.storage import Place, local_path
from foundation.storage.objects import READ_BYTES, WRITE_BYTES

WORKER_HOUR_DOLLARS = 0.07  # one core and 3.75 GB, about what Dataflow takes for a batch worker
_LEVEL_SECONDS = 60.0  # of a worker: a level ends when its last task ends, and others wait
_BUDGET_BYTES = 8 << 20  # of payload and rows, see RequestCost.budget
_FEW_REQUESTS = 2_000  # take one worker 4 seconds; copying would be slower
MAX_LEVELS = 4


class RequestCost(NamedTuple):
    """What a storage takes for requests and bytes.

    Attributes:
        seconds: Until the first byte of a range.
        in_flight: Requests that a worker has under way at a time.
        bytes_per_second: That a worker copies: read, checked and written.
        read_dollars: For one request that reads.
        write_dollars: For one request that writes.
        read_bytes: The most that one request reads.
        write_bytes: The most that one request writes.
        budget: Requests for 8 MiB within which planning, merging and sharding should stay, and four
            for each unit and shard: object stores limit the rate of requests, too.
    """

    seconds: float
    in_flight: int
    bytes_per_second: float
    read_dollars: float
    write_dollars: float
    read_bytes: int
    write_bytes: int
    budget: float


# Opening a file and mapping a sidecar; nobody charges for it.
LOCAL = RequestCost(150e-6, 1, 300e6, 0.0, 0.0, 1 << 40, 1 << 40, math.inf)
# GCS and S3 have the same list prices: 0.4 dollars for a million reads, 5 for a million writes.
OBJECT_STORE = RequestCost(0.03, 16, 100e6, 0.4e-6, 5e-6, READ_BYTES, WRITE_BYTES, 4.0)


class MergeLimits(NamedTuple):
    """What a worker can hold.

    Attributes:
        block_bytes: Payload in memory at a time, in merging and in sharding.
        row_bytes: Sidecar rows of one task in memory.
        fan_in: The most inputs of a merge.
        shard_inputs: The most inputs of a shard.
        run_bytes: Payload of a run of the first level, which waits on the disk.
    """

    block_bytes: int = bounds.BLOCK_BYTES
    row_bytes: int = bounds.BLOCK_ROW_BYTES
    fan_in: int = 64
    shard_inputs: int = 16
    run_bytes: int = bounds.RUN_BYTES

    def memory_bytes(self, cost: RequestCost) -> int:
        """The most that a worker holds: a block, ranges in flight, and rows that are sorted."""
        in_flight = cost.in_flight * self.block_bytes // self.fan_in
        return self.block_bytes + in_flight + 2 * self.row_bytes


class Merging(NamedTuple):
    """How a build may merge.

    Attributes:
        cost: Cost of the storage that has the units.
        limits: MergeLimits of a worker.
        max_levels: Number of levels that the pipeline has; 0 if it has none.
        ranges: Number of ranges of units, and of hashes, that workers plan; 1 if one worker plans
            the whole.
    """

    cost: RequestCost
    limits: MergeLimits
    max_levels: int
    ranges: int = 1


LIMITS = MergeLimits()
NO_MERGING = Merging(LOCAL, LIMITS, 0)


class MergeWork(NamedTuple):
    """What is to be brought into the order of the shards.

    Attributes:
        units: Number of staged units that have records.
        shards: Number of shards.
        records: Records of all shards, copies included.
        payload_bytes: Bytes of their payload.
        row_bytes: Bytes of their sidecar rows.
    """

    units: int
    shards: int
    records: int
    payload_bytes: int
    row_bytes: int = bounds.BLOCK_ROW_BYTES


class Level(NamedTuple):
    """One merge level; it has a task for every group and bucket.

    Attributes:
        groups: Into so many groups the inputs are divided, in order and evenly.
        buckets: Into so many ranges the shards are divided; a multiple of the level before.
    """

    groups: int
    buckets: int


class StageTraffic(NamedTuple):
    """What a stage asks of the storage.

    Attributes:
        reads: Requests that read, or ask whether there is a file.
        writes: Requests that write.
        read_bytes: Payload and rows.
        written_bytes: Payload and rows.
    """

    reads: int
    writes: int
    read_bytes: int
    written_bytes: int

    @property
    def requests(self) -> int:
        """Of both kinds."""
        return self.reads + self.writes


RECORD_BYTES = 100_000
ROW_BYTES = 270  # in a sidecar: measured on 6,440 images of the clothing data set
# A unit ends at a record with a chance of its size / the aim, at three times the aim at the latest.
_OF_AIM = 1 - math.exp(-3)
SHARD_BYTES = 128 << 20
_MOST_GROWTH = 8  # of compressed text

# One worker plans 128 GiB of photographs within half a minute a round. Each range reads what each
# other one has written for it, so requests grow with the square of their number.
RANGE_BYTES = 128 << 30
_MOST_RANGES = 1 << 11

# Below this, local builds never merge: the page cache has the sidecars, and copying takes longer.
_LOCAL_BYTES = 256 << 30


def merging_at(place: Place, corpus_bytes: int | None) -> Merging:
    """How a build merges whose units are staged there, and whether it is planned in rounds.

    Args:
        place: Folder of the staged units.
        corpus_bytes: As listed; None if the pipeline is made before the corpus is listed.
    """
    if local_path(place) is None:
        merging = Merging(OBJECT_STORE, LIMITS, MAX_LEVELS)
        if corpus_bytes is None:
            return merging
        # A level that has nothing to do takes half a second. Staged, a corpus may be larger.
        levels = choose_levels(usual_work(_MOST_GROWTH * corpus_bytes), merging)
        max_levels = max(1, len(levels))
        return merging._replace(max_levels=max_levels, ranges=ranges_of(corpus_bytes))
    if (corpus_bytes or 0) < _LOCAL_BYTES:
        return NO_MERGING
    return Merging(LOCAL, LIMITS, MAX_LEVELS, ranges_of(corpus_bytes or 0))


def ranges_of(corpus_bytes: int) -> int:
    """Number of ranges of units that workers plan; 1 if one worker plans the whole."""
    return min(_MOST_RANGES, max(1, corpus_bytes // RANGE_BYTES))


def usual_work(payload_bytes: int) -> MergeWork:
    """Of images of 100 kB with the default sizes of units and shards."""
    records = max(1, payload_bytes // RECORD_BYTES)
    return MergeWork(
        units=max(1, int(payload_bytes / (_OF_AIM * aimed_unit_bytes(payload_bytes)))),
        shards=max(1, payload_bytes // SHARD_BYTES),
        records=records,
        payload_bytes=payload_bytes,
        row_bytes=records * ROW_BYTES,
    )


def choose_levels(work: MergeWork, merging: Merging) -> tuple[Level, ...]:
    """The cheapest levels within the budget of requests: none, where units are few or local."""
    limits = merging.limits
    if not work.shards:
        return ()
    candidates: list[tuple[Level, ...]] = [()]
    for count in range(1, merging.max_levels + 1):
        for shard_inputs in range(1, limits.shard_inputs + 1):
            levels = _levels(work, count, shard_inputs, limits)
            if levels is not None:
                candidates.append(levels)
        candidates.append(_widest(work, count, limits))

    def value(levels: tuple[Level, ...]) -> tuple[float, float, int]:
        excess = _over_budget(work, levels, merging)
        return excess, dollars(work, levels, merging), len(levels)

    return min(candidates, key=value)


def dollars(work: MergeWork, levels: Sequence[Level], merging: Merging) -> float:
    """What planning, merging and sharding cost: requests, and the time of the workers."""
    cost, worker_second = merging.cost, WORKER_HOUR_DOLLARS / 3600
    total = len(levels) * _LEVEL_SECONDS * worker_second
    for traffic in shuffle_traffic(work, levels, merging).values():
        seconds = traffic.requests * cost.seconds / cost.in_flight
        seconds += traffic.written_bytes / cost.bytes_per_second
        total += seconds * worker_second
        total += traffic.reads * cost.read_dollars + traffic.writes * cost.write_dollars
    return total


def shuffle_traffic(
    work: MergeWork, levels: Sequence[Level], merging: Merging
) -> dict[str, StageTraffic]:
    """What each stage from planning to sharding asks of the storage, by its name."""
    size = work.payload_bytes + work.row_bytes
    part, written = merging.cost.read_bytes, merging.cost.write_bytes
    rows = _requests(work.row_bytes, work.units, part)
    first = levels[0].groups if levels else work.shards
    traffic = {"plan": StageTraffic(rows, first, work.row_bytes, 0)}
    inputs = work.units
    for number, level in enumerate(levels):
        tasks = level.groups * level.buckets
        ranges = inputs * level.buckets * _blocks(work, tasks, merging.limits)
        reads = _requests(size, ranges, part)
        # A unit has its rows in another file; a cell begins with them, and is one range if it fits
        # in memory.
        if number == 0:
            reads += rows
        elif ranges > inputs * level.buckets:
            reads += inputs * level.buckets
        # Besides, a task asks who owns the output and whether it was done before, and the first
        # level has recipes; the description of a run is written last.
        reads += tasks * (3 if number == 0 else 2)
        traffic[f"merge {number + 1}"] = StageTraffic(
            reads, _requests(size, tasks, written) + tasks, size, size
        )
        inputs = level.groups
    blocks = _blocks(work, work.shards, merging.limits)
    pairs = work.shards * inputs
    if levels:
        reads = _requests(size, pairs * blocks, part) + (pairs if blocks > 1 else 0)
    else:
        # A sidecar for every pair and a recipe; never more ranges than records.
        reads = pairs + work.shards + _requests(size, min(work.records, pairs * blocks), part)
    # The owner, what is known of the shard, and the plan; then its rows of the index and its
    # description.
    writes = _requests(work.payload_bytes, work.shards, written) + 2 * work.shards
    traffic["shard"] = StageTraffic(reads + 3 * work.shards, writes, size, size)
    return traffic


def part_of(index: int, parts: int, total: int) -> tuple[int, int]:
    """[start, end) of one of the even parts of a range; finer parts in a multiple are nested."""
    return index * total // parts, (index + 1) * total // parts


def _over_budget(work: MergeWork, levels: Sequence[Level], merging: Merging) -> float:
    size, budget = work.payload_bytes + work.row_bytes, merging.cost.budget
    most = budget * size / _BUDGET_BYTES + 4 * (work.units + work.shards) + _FEW_REQUESTS
    requests = sum(one.requests for one in shuffle_traffic(work, levels, merging).values())
    return max(0.0, requests - most)


def _blocks(work: MergeWork, tasks: int, limits: MergeLimits) -> int:
    return max(1, -(-work.payload_bytes // (max(1, tasks) * limits.block_bytes)))


def _requests(size: int, objects: int, part_bytes: int) -> int:
    """For so many bytes in so many equal pieces, each of which takes one request at least."""
    return objects * max(1, -(-size // (max(1, objects) * part_bytes)))


def _levels(
    work: MergeWork, count: int, shard_inputs: int, limits: MergeLimits
) -> tuple[Level, ...] | None:
    """Levels after which a shard has at most so many inputs; None if they were too wide."""
    inputs, levels = work.units, list[Level]()
    for left in range(count, 0, -1):
        fan_in = max(2, _root(-(-inputs // shard_inputs), left))
        fan_in = fan_in if levels else min(fan_in, _first_fan_in(work, limits))
        if fan_in > limits.fan_in:
            return None
        inputs = -(-inputs // fan_in)
        levels.append(Level(inputs, _buckets(work, inputs, levels, limits)))
    return tuple(levels) if inputs <= shard_inputs else None


def _widest(work: MergeWork, count: int, limits: MergeLimits) -> tuple[Level, ...]:
    """So many levels with the largest fan-in; of a shard, more inputs than the limit, perhaps."""
    inputs, levels = work.units, list[Level]()
    for _ in range(count):
        fan_in = limits.fan_in if levels else min(limits.fan_in, _first_fan_in(work, limits))
        inputs = -(-inputs // fan_in)
        levels.append(Level(inputs, _buckets(work, inputs, levels, limits)))
    return tuple(levels)


def _first_fan_in(work: MergeWork, limits: MergeLimits) -> int:
    """Of level 1, which has no buckets: the rows of its units must fit, its run on the disk."""
    units = max(1, work.units)
    rows, payload = max(1, -(-work.row_bytes // units)), max(1, -(-work.payload_bytes // units))
    return max(1, min(limits.row_bytes // rows, limits.run_bytes // payload))


def _buckets(work: MergeWork, groups: int, before: list[Level], limits: MergeLimits) -> int:
    """As many as make a task fit in one block, but none smaller than a shard."""
    if not before:
        return 1
    known = before[-1].buckets
    wanted = max(
        -(-work.payload_bytes // (groups * limits.block_bytes)),
        -(-work.row_bytes // (groups * limits.row_bytes)),
    )
    times = max(1, min(-(-wanted // known), work.shards // known))
    return known * times


def _root(value: int, degree: int) -> int:
    """The least whole number whose power is at least `value`."""
    root = max(1, math.floor(value ** (1 / degree)) - 1)
    while root**degree < value:
        root += 1
    return root
