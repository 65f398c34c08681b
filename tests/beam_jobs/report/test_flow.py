"""The flow of the report: its labels are where no band passes."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from beam_jobs.report.sections.ledger import Node, place_flow

_HALF_LINE = 8.0  # pixels of a label above and below its middle
_LONGEST = 0.2  # of the width: "quarantined 123,456,789" on a page of usual width

counts = st.integers(1, 10**9)


def node(name, children=(), count=0):
    total = count or sum(child.count for child in children)
    return Node(name, total, "left", children)


@given(
    st.lists(counts, min_size=1, max_size=6),
    st.lists(counts, max_size=1),
    st.lists(counts, max_size=9),
    st.lists(counts, max_size=9),
)
@example([1] * 6, [126], [], [])
@example([1] * 6, [10**9], [], [])
def test_no_band_crosses_a_label(splits, duplicates, filtered, refused):
    leaves = [[node("x", count=count) for count in some] for some in (splits, filtered, refused)]
    ways = [node("kept", leaves[0]), *(node("duplicates", count=count) for count in duplicates)]
    ways += [node("filtered", children) for children in leaves[1:] if children]
    flow = place_flow(node("read", ways))
    bands, labels = flow.bands, flow.labels
    assert len(bands) == len(labels) - 1 == len(ways) + sum(map(len, leaves))
    for label in labels:
        if label.last:
            assert label.left == 100.0  # no band goes beyond the last bars
            continue
        for band in bands:
            upper, lower = between(band, 10 * label.left, 10 * label.left + 1000 * _LONGEST)
            above, below = label.middle - _HALF_LINE, label.middle + _HALF_LINE
            assert np.all((lower < above) | (upper > below))
    tops = [label.middle for label in labels if label.last]
    assert np.all(np.diff(tops) >= 2 * _HALF_LINE)


def between(band, start, end):
    """The upper and lower edges of a band at some places between two; none outside of it."""
    t = np.linspace(0, 1, 400)
    x = band.left + (band.right - band.left) * (
        1.5 * t * (1 - t) + t**3
    )  # a cubic with controls halfway
    ease = t * t * (3 - 2 * t)
    here = (x >= start) & (x <= end)
    upper = band.top + (band.right_top - band.top) * ease
    return upper[here], (band.bottom + (band.right_bottom - band.bottom) * ease)[here]
