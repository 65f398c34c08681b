"""Frames come back in any order, from memory or from a file."""

from __future__ import annotations

import uuid

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
        with spool.Spool(path) as waiting:
            for framed in frames:
                waiting.append(framed)
            assert path.exists() == (sum(map(len, frames)) > held)
            assert list(waiting.take(order)) == [frames[number] for number in order]
    assert not path.exists()
