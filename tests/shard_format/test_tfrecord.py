from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_format import (
    DamageError,
    frame,
    frame_columns,
    read_records,
    unframe,
    unframe_columns,
)

payloads = st.lists(st.binary(max_size=200), max_size=6)


def test_tensorflow_writes_the_same_file(tmp_path):
    import tensorflow as tf

    records = [b"", b"a", bytes(range(256)) * 300]
    theirs = tmp_path / "theirs"
    with tf.io.TFRecordWriter(str(theirs)) as writer:
        for record in records:
            writer.write(record)
    assert theirs.read_bytes() == b"".join(map(frame, records))


@given(payloads)
def test_tensorflow_reads_what_is_framed(tmp_path_factory, records):
    import tensorflow as tf

    path = tmp_path_factory.mktemp("frames") / "ours"
    path.write_bytes(b"".join(map(frame, records)))
    assert [record.numpy() for record in tf.data.TFRecordDataset(str(path))] == records


@given(payloads, st.integers(0, 2))
def test_columns_are_framed_as_records(records, skipped):
    column = pa.array([*[b"x"] * skipped, *records], pa.large_binary())[skipped:]
    assert frame_columns(column).to_pylist() == list(map(frame, records))


def test_large_lengths_are_framed_as_records():
    records = [bytes(size) for size in (255, 256, 65_535, 65_536, 1 << 24)]
    assert frame_columns(pa.array(records, pa.large_binary())).to_pylist() == list(
        map(frame, records)
    )


@given(payloads)
def test_offsets_point_at_frames(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("frames") / "ours"
    data = b"".join(map(frame, records))
    path.write_bytes(data)
    pairs = list(read_records(path))
    assert [payload for _, payload in pairs] == records
    for offset, payload in pairs:
        assert data[offset:].startswith(frame(payload))


def test_every_flipped_bit_is_found(tmp_path):
    framed = frame(b"payload")
    path = tmp_path / "flipped"
    for bit in range(8 * len(framed)):
        damaged = bytearray(framed)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(frame(b"before") + damaged)
        with pytest.raises(DamageError, match="at byte 22"):
            list(read_records(path))
        with pytest.raises(DamageError, match="here"):
            unframe(bytes(damaged), "here")


def unframed(data, begins, lengths, order):
    return unframe_columns(data, *(np.array(one, np.int64) for one in (begins, lengths, order)))


@given(payloads, st.randoms())
def test_payloads_of_frames_in_any_order(records, random):
    framed = list(map(frame, records))
    gap = b"between"
    begins = np.cumsum([0, *(len(gap) + len(one) for one in framed)])[:-1] + len(gap)
    order = random.choices(range(len(framed)), k=2 * len(framed)) if framed else []
    data = b"".join(gap + one for one in framed)
    taken, damaged = unframed(data, begins, [len(one) for one in framed], order)
    assert taken.to_pylist() == [records[number] for number in order] and damaged == -1


def test_a_damaged_frame_among_others_is_named():
    framed = frame(b"payload")
    size = len(framed)
    begins, lengths = [0, size, 2 * size], [size] * 3
    for bit in range(8 * size):
        damaged = bytearray(framed)
        damaged[bit // 8] ^= 1 << bit % 8
        taken, number = unframed(framed + damaged + framed, begins, lengths, [0, 1, 2])
        assert number == 1 and not len(taken)
    assert unframed(framed * 3, begins, [size, size - 9, size], [0])[1] == 1
    assert unframed(framed * 3, begins, [size, 3, size], [0])[1] == 1
    assert unframed(framed * 3, [0, size - 1, 2 * size], lengths, [0])[1] == 1  # they overlap
    assert unframed(framed * 2, begins, lengths, [0])[1] == 2  # cut


def test_every_truncation_is_found(tmp_path):
    data = frame(b"one") + frame(b"two")
    path = tmp_path / "cut"
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        if size == len(frame(b"one")):
            assert len(list(read_records(path))) == 1  # a cut between records is another file
            continue
        with pytest.raises(DamageError, match="the file ends"):
            list(read_records(path))


def test_an_empty_file_has_no_records(tmp_path):
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert list(read_records(path)) == []


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(read_records(tmp_path / "none"))
