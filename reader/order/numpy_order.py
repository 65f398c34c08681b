"""The order of an epoch as pure functions (numpy).

An epoch is computed, not buffered. With shuffle="window":

    rotate    number the records from a random one on, so that chunks, and the shorter one at the
              end, hold other records in every epoch
    permute   permute the chunks of consecutive records; a window is a fixed number of chunks
    deal      divide every window into one block for each canonical stream
    shuffle   permute the records of each block
    weave     interleave the streams: position p of the epoch is of stream p % streams

So the record at any position follows from (shard set, seed, epoch) at a constant cost, and a resume
is arithmetic. A worker (i, n) reads the positions p with p % n == i: those of whole streams, hence
of whole blocks, hence 1/n of the bytes. The batches of all workers together are the same whatever n
is.

shuffle="full" is one permutation of the whole split, and shuffle="off" the order on disk.

`graph_order` computes the same in TensorFlow operations, because tf.data must not call back into
Python; tests hold them equal. Random bits come from a hash (`shard_format.mix`), not from numpy's
Generator: its streams may change between versions of numpy (NEP 19), and a resumed run must not
depend on that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reader.order.geometry import Geometry
from shard_format import mix

# One independent stream of hashes per purpose; the numbers are ASCII, and part of the order.
ROTATE_STREAM = 0x524F54415445  # "ROTATE"
CHUNK_STREAM = 0x4348554E4B  # "CHUNK"
RECORD_STREAM = 0x5245434F5244  # "RECORD"
AUGMENT_STREAM = 0x4155474D454E54  # "AUGMENT"
BATCH_STREAM = 0x4241544348  # "BATCH"
SWAP_STREAM = 0x53574150  # "SWAP"

# In a window records are sorted by one number: block, then group of similar length, then hash.
BLOCK_BITS, GROUP_BITS = 47, 32

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]


def stream_key(stream: int, seed: int) -> UInt64Array:
    """[1] uint64: what sets this stream and seed apart from all others."""
    return mix(np.array([stream], np.uint64) ^ mix(np.array([seed], np.uint64)))


def epoch_key(stream: int, seed: int, epoch: int) -> UInt64Array:
    """[1] uint64: what sets this epoch of the stream apart."""
    return mix(stream_key(stream, seed) ^ np.uint64(epoch))


def num_rounds(count: int) -> int:
    """Rounds of `permute`: 8 for every bit of a number below `count`, and 16 more.

    Hoang, Morris and Rogaway (2012, section 5) need about 6 log2(n) for n in practice; small
    domains are where more rounds are cheap and the bound is weak.
    """
    return 16 + 8 * int(count - 1).bit_length()


def permute(
    values: Int64Array, count: int | Int64Array, key: UInt64Array, rounds: int | None = None
) -> Int64Array:
    """[n] int64: where a pseudorandom permutation of 0, 1, ..., count - 1 takes these values.

    The swap-or-not shuffle (Hoang, Morris and Rogaway, An Enciphering Scheme Based on a Card
    Shuffle, CRYPTO 2012, figure 1): in each round every value has a partner at the other side of a
    random sum, and one bit, common to both, says whether they change places. It works on a domain
    of any size and takes no memory, so that a place in an epoch costs the same wherever it is.

    Args:
        values: [n] in [0, count).
        count: Size of the domain, at least 1; or [n], for each value its own.
        key: [1] chooses the permutation; or [n], for each value its own.
        rounds: By default those of the largest domain.
    """
    for number in range(rounds or num_rounds(int(np.max(count)))):
        round_key = mix(key ^ np.uint64(number))
        partner = ((round_key >> np.uint64(1)).astype(np.int64) % count - values) % count
        common = np.maximum(values, partner).astype(np.uint64)
        swap = mix(common ^ mix(round_key ^ np.uint64(SWAP_STREAM))) >> np.uint64(63)
        values = np.where(swap == 1, partner, values)
    return values


def epoch_numbers(geometry: Geometry, seed: int, epoch: int, shuffle: str) -> Int64Array:
    """[records] int64: the record number at every position of an epoch. It takes O(records)."""
    windows = []
    for window in range(geometry.num_windows):
        numbers, wanted = window_order(geometry, window, (0, 1), seed, epoch, shuffle)
        windows.append(numbers[wanted])
    return np.concatenate(windows)


def window_order(
    geometry: Geometry,
    window: int,
    share: tuple[int, int],
    seed: int,
    epoch: int,
    shuffle: str,
) -> tuple[Int64Array, Int64Array]:
    """What one worker reads of a window.

    Args:
        geometry: The split.
        window: Which window of the epoch.
        share: (r, n): of the positions p of the epoch those with p % n == r; n divides the streams.
        seed: In [0, 2**63).
        epoch: In [0, 2**63).
        shuffle: One of `reader.options.SHUFFLES`.

    Returns:
        numbers: [m] record numbers as they are best read.
        wanted: [m] where among them to find the record of each position, in order.
    """
    if shuffle in ("full", "off"):
        base, size = _extent(geometry, window)
        numbers = np.arange(base + share[0], base + size, share[1])
        if shuffle == "full":
            key = epoch_key(RECORD_STREAM, seed, epoch)
            numbers = permute(numbers, geometry.records, key)
        return numbers, np.arange(len(numbers))
    if shuffle != "window":
        raise ValueError(f"unknown order of epochs {shuffle!r}")
    numbers, blocks = block_numbers(geometry, window, share, seed, epoch)
    hashes = mix(epoch_key(RECORD_STREAM, seed, epoch) ^ numbers.astype(np.uint64))
    keys = (blocks << BLOCK_BITS) + (hashes >> np.uint64(64 - BLOCK_BITS)).astype(np.int64)
    return numbers, weave(np.argsort(keys, kind="stable"), blocks)


def block_numbers(
    geometry: Geometry, window: int, share: tuple[int, int], seed: int, epoch: int
) -> tuple[Int64Array, Int64Array]:
    """The records of a worker's blocks of a window, in the order on disk.

    Returns:
        [m] record numbers, block by block, and [m] the block of each, counted 0, 1, ...
    """
    base, size = _extent(geometry, window)
    own = np.arange(share[0], geometry.streams, share[1])
    shorter, longer = divmod(size, geometry.streams)
    starts = base + own * shorter + np.minimum(own, longer)
    counts = shorter + (own < longer)
    blocks = np.repeat(np.arange(len(own)), counts)
    places = np.concatenate([np.arange(s, s + c) for s, c in zip(starts, counts, strict=True)])

    chunk = geometry.chunk_records
    chunks = np.arange(base // chunk, (base + size - 1) // chunk + 1)
    whole = chunks < geometry.num_chunks  # the last one, if it is shorter, stays the last
    key = epoch_key(CHUNK_STREAM, seed, epoch)
    chunks[whole] = permute(chunks[whole], max(1, geometry.num_chunks), key)
    records = chunks[places // chunk - base // chunk] * chunk + places % chunk
    key = epoch_key(ROTATE_STREAM, seed, epoch) >> np.uint64(1)
    return (records + key.astype(np.int64) % geometry.records) % geometry.records, blocks


def weave(ordered: Int64Array, blocks: Int64Array) -> Int64Array:
    """[m]: `ordered`, block after block, as the first of every block, the second of every block...

    Args:
        ordered: [m] indices into the records of the blocks, by block.
        blocks: [m] ascending, the block of each record.
    """
    starts = np.searchsorted(blocks, np.arange(blocks[-1] + 1 if len(blocks) else 0))
    ranks = np.arange(len(blocks)) - starts[blocks]
    return np.asarray(ordered[np.argsort(ranks * (len(starts) + 1) + blocks, kind="stable")])


def augment_keys(draws: Int64Array, seed: int, epoch: int) -> UInt64Array:
    """[n] uint64: what all random numbers of these records in this epoch are drawn from."""
    return mix(epoch_key(AUGMENT_STREAM, seed, epoch) ^ draws.astype(np.uint64))


def numbered(keys: UInt64Array, numbers: Int64Array) -> npt.NDArray[np.float32]:
    """Float32 in [0, 1): of each key the random number of this number."""
    bits = mix(keys ^ numbers.astype(np.uint64)) >> np.uint64(40)
    return bits.astype(np.float32) * np.float32(2**-24)  # 24 bits: exact in a float32


def _extent(geometry: Geometry, window: int) -> tuple[int, int]:
    """The first position of a window, and how many it has."""
    base = window * geometry.window_records
    return base, min(geometry.window_records, geometry.records - base)
