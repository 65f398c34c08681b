"""What one round of planning sends arrives at its destination, piece by piece, or is refused."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.staging.exchange import Exchange, table_pieces
from beam_jobs.workspace import Workspace
from shard_format import InputError

# Of each source, the pieces for each destination.
_SENT = st.integers(1, 4).flatmap(
    lambda destinations: st.lists(
        st.lists(
            st.lists(st.binary(min_size=1, max_size=40), max_size=3),
            min_size=destinations,
            max_size=destinations,
        ),
        min_size=1,
        max_size=4,
    )
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("exchange") / "set", None)
    workspace.create()
    return workspace


def send(exchange, sent):
    exchange.finish(
        [
            exchange.write_pieces(
                source,
                ((number, piece) for number, pieces in enumerate(slices) for piece in pieces),
                len(slices),
            )
            for source, slices in enumerate(sent)
        ]
    )


@given(_SENT, st.integers(1, 50))
def test_every_piece_arrives_in_order(workspace, sent, block):
    exchange = Exchange(workspace, "sent")
    send(exchange, sent)
    with mock.patch.object(bounds, "EXCHANGED_BYTES", block):
        for number in range(len(sent[0])):
            expected = [
                (source, piece) for source, slices in enumerate(sent) for piece in slices[number]
            ]
            assert list(exchange.read(number, len(sent))) == expected


@given(_SENT, st.integers(1, 50), st.data())
def test_a_changed_or_lost_byte_is_refused(workspace, sent, block, data):
    exchange = Exchange(workspace, "damaged")
    send(exchange, sent)
    files = [
        path
        for path in sorted(workspace.plan.iterdir())
        if path.name.startswith("damaged") and path.stat().st_size
    ]
    files = [
        path for path in files if path.name < f"damaged-{len(sent):05d}" or "places" in path.name
    ]
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[-data.draw(st.integers(1, len(content))) :]
    path.write_bytes(content)
    with (
        mock.patch.object(bounds, "EXCHANGED_BYTES", block),
        pytest.raises(InputError, match="damaged"),
    ):
        for number in range(len(sent[0])):
            list(exchange.read(number, len(sent)))


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 9))
def test_rows_of_tables_arrive_where_their_column_says(workspace, numbers, batch):
    numbers = sorted(numbers)
    table = pa.table({"to": pa.array(numbers, pa.int64()), "row": np.arange(len(numbers))})
    tables = [table.slice(start, batch) for start in range(0, len(table), batch)]
    exchange = Exchange(workspace, "tables")
    exchange.finish([exchange.write_pieces(0, table_pieces(tables, "to"), 6)])
    for number in range(6):
        rows = [row for part in exchange.tables(number, 1) for row in part["row"].to_pylist()]
        assert rows == [row for row, to in enumerate(numbers) if to == number]
