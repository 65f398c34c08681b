"""Frames come back in any order, from memory or from a file."""

from __future__ import annotations

import contextlib
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.staging import spool


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(0, 300), st.randoms())
def test_frames_come_back_in_any_order(tmp_path_factory, frames, held, draw):
    path = tmp_path_factory.getbasetemp() / uuid.uuid4().hex
    order = list(range(len(frames)))
    draw.shuffle(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_HELD_BYTES", held)
        with contextlib.closing(spool.Spool(path)) as waiting:
            begins = [np.zeros(0, np.int64)]
            for start in range(0, len(frames), 4):
                some = pa.array(frames[start : start + 4], pa.large_binary())
                begins.append(waiting.append(some))
            assert path.exists() == (sum(map(len, frames)) > held)
            sizes = np.array([len(frame) for frame in frames], np.int64)[order]
            places = np.concatenate(begins)[order]
            for part in (slice(0, 7), slice(7, None)):
                taken = b"".join(waiting.take(places[part], sizes[part]))
                assert taken == b"".join(frames[number] for number in order[part])
    assert not path.exists()
