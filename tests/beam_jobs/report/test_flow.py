"""The flow of the report: its labels are where no band passes."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.report.markup import escape
from beam_jobs.report.sections.ledger import Node, draw_flow

_BAND = re.compile(
    r'd="M([\d.]+) ([\d.]+)C[\d.]+ [\d.]+ [\d.]+ [\d.]+ ([\d.]+) ([\d.]+)V([\d.]+)'
    r'C[\d.]+ [\d.]+ [\d.]+ [\d.]+ [\d.]+ ([\d.]+)Z"'
)
_LABEL = re.compile(r'class="label( last)?" style="top:([\d.]+)px;left:([\d.]+)%"')
_HALF_LINE = 8.0  # pixels of a label above and below its middle
_LONGEST = 0.2  # of the width: "quarantined 123,456,789" on a page of usual width

counts = st.integers(1, 10**9)


def node(name, children=(), count=0):
    total = count or sum(child.count for child in children)
    return Node(escape(name), total, "left", children)


@given(
    st.lists(counts, min_size=1, max_size=6),
    st.lists(counts, max_size=1),
    st.lists(counts, max_size=9),
    st.lists(counts, max_size=9),
)
def test_no_band_crosses_a_label(splits, duplicates, filtered, refused):
    leaves = [[node("x", count=count) for count in some] for some in (splits, filtered, refused)]
    ways = [node("kept", leaves[0]), *(node("duplicates", count=count) for count in duplicates)]
    ways += [node("filtered", children) for children in leaves[1:] if children]
    drawn = str(draw_flow(node("read", ways), "A flow"))
    bands = [tuple(map(float, found)) for found in _BAND.findall(drawn)]
    labels = [(bool(last), float(top), float(left)) for last, top, left in _LABEL.findall(drawn)]
    assert len(bands) == len(labels) - 1 == len(ways) + sum(map(len, leaves))
    for last, top, left in labels:
        if last:
            assert left == 100.0  # no band goes beyond the last bars
            continue
        for band in bands:
            upper, lower = between(band, 10 * left, 10 * left + 1000 * _LONGEST)
            assert np.all((lower < top - _HALF_LINE) | (upper > top + _HALF_LINE))
    tops = [top for last, top, _ in labels if last]
    assert np.all(np.diff(tops) >= 2 * _HALF_LINE)


def between(band, start, end):
    """The upper and lower edges of a band at some places between two; none outside of it."""
    left, top, right, right_top, right_bottom, bottom = band
    t = np.linspace(0, 1, 400)
    x = left + (right - left) * (1.5 * t * (1 - t) + t**3)  # a cubic with controls halfway
    ease = t * t * (3 - 2 * t)
    here = (x >= start) & (x <= end)
    upper = top + (right_top - top) * ease
    return upper[here], (bottom + (right_bottom - bottom) * ease)[here]
