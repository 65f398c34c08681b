"""Lengths of documents: looked up in the index, whatever its size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader.record_types.token_lengths import RecordLengths

counts = st.lists(st.integers(0, 2**31 - 1), max_size=20)


@given(
    st.lists(counts, max_size=6),
    st.one_of(st.none(), st.integers(1, 2**31)),
    st.sampled_from([pa.int32(), pa.int64()]),
    st.randoms(),
)
def test_it_is_the_array(
    parts: list[list[int]], limit: int | None, kind: pa.DataType, random: object
) -> None:
    column = pa.chunked_array([pa.array(part, kind) for part in parts], kind)
    stored = np.array([count for part in parts for count in part], np.int64)
    cut = stored if limit is None else np.minimum(stored, limit)
    lengths = RecordLengths(column, limit)
    assert (len(lengths), lengths.total) == (len(cut), cut.sum())
    assert lengths.num_cut == (stored > cut).sum()
    assert lengths.longest == max(cut.tolist(), default=0)
    numbers = np.arange(len(cut))
    random.shuffle(numbers)  # type: ignore[attr-defined]
    assert (lengths[numbers] == cut[numbers]).all()
    assert lengths[numbers[:0]].shape == (0,)


def test_nulls_are_no_counts() -> None:
    with pytest.raises(pa.ArrowInvalid):
        RecordLengths(pa.chunked_array([pa.array([1, None], pa.int32())]), None)


LOOK = """
import sys
import numpy as np, pyarrow as pa
from reader.record_types.token_lengths import RecordLengths
table = pa.ipc.open_file(pa.memory_map(sys.argv[1])).read_all()
counts = RecordLengths(table["tokens"], 500)
assert counts.longest == 500 and len(counts) == table.num_rows
numbers = np.arange(0, len(counts), 1000)
assert (counts[numbers] == np.minimum(numbers % 700, 500)).all()
print([int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")][0])
"""


@pytest.mark.proof
def test_memory_does_not_grow_with_the_index(tmp_path: Path, repository: Path) -> None:
    taken = []
    for parts in (1, 60):
        path = tmp_path / "index.arrow"
        schema = pa.schema([("tokens", pa.int32())])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for part in range(parts):
                numbers = np.arange(part * 200_000, part * 200_000 + 200_000)
                column = pa.array(numbers % 700, pa.int32())
                writer.write_batch(pa.RecordBatch.from_arrays([column], schema=schema))
        run = subprocess.run(
            [sys.executable, "-c", LOOK, str(path)],
            capture_output=True,
            text=True,
            cwd=repository,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        taken.append(int(run.stdout))
    assert taken[1] - taken[0] < 20_000  # kB, of an index of 48 MB
