"""The ledger as a flow: what was read, and how much of it each split holds or each reason took.

Bars and bands are one SVG that is stretched to the width of the page. Labels are text of the page
placed over it, so they keep their size on every screen. They are above the bars of the first two
columns and to the right of the last one, where no band passes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from beam_jobs.report.markup import foreign
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from foundation.wording import counted

_MOST_REASONS = 8  # with their own bar in the flow
_MOST_ROWS = 40  # of reasons in the table

# The drawing, in pixels; its width is stretched to that of the page.
_HEIGHT = 190  # of all records together
_PITCH = 24  # from one label to the next, at least
_TOP = 36  # above a bar, for its label
_LABEL = 13  # from the middle of a label to the bar below it
_HALF_LINE = 8  # of a label, above and below its middle
# Part of its fall that a band has behind it where the label below ends, at most 200 pixels on.
_FALL = 0.135
_GAP = 10  # between two bars whose labels are to their right
_THINNEST = 2.0  # so that one record of a million is visible
_WIDTH = 1000
_BAR = 12
_COLUMNS = (0.0, 0.3, 1 - _BAR / _WIDTH)  # left edge of the bars, as a part of the width


@dataclasses.dataclass
class Node:
    """One bar of the flow.

    Attributes:
        name: Its label.
        count: Records that pass it.
        color: A class of the style sheet.
        children: What it divides into. They need not sum to `count`: bands show proportions.
        amount: The amount in the label; the count if empty.
        left: The left edge of the bar.
        top: Its upper edge.
        thickness: Its height.
    """

    name: str | Markup
    count: int
    color: str
    children: Sequence[Node] = ()
    amount: str = ""
    left: float = 0.0
    top: float = 0.0
    thickness: float = 0.0


class Band(NamedTuple):
    """A band from a bar on the left to one on the right, by its edges in pixels."""

    color: str
    left: float
    top: float
    bottom: float
    right: float
    right_top: float
    right_bottom: float


class Label(NamedTuple):
    """A label: its left edge in percent of the width, the middle of its line in pixels."""

    node: Node
    left: float
    middle: float
    last: bool


class Flow(NamedTuple):
    """The flow from what was read to its parts and theirs, and its height in pixels."""

    height: float
    bands: list[Band]
    bars: list[Node]
    labels: list[Label]


def content(reported: ReportedSet) -> Content:
    """The flow, the same as a table, and notes."""
    ledger = reported.manifest.ledger
    refused = {item.reason: item.records for item in reported.refused if item.stage != "filter"}
    # The ledger has one list of reasons: what was not refused was filtered, here or in planning.
    filtered = {reason: count for reason, count in ledger.reasons.items() if reason not in refused}
    ways = [
        Node("kept", ledger.kept, "kept", _splits(reported)),
        Node("duplicates", ledger.duplicates, "left"),
        Node("filtered", ledger.filtered, "left", _reasons(filtered, "left")),
        Node("quarantined", ledger.quarantined, "refused", _reasons(refused, "refused")),
    ]
    if ledger.excluded:
        ways.append(Node("kept out", ledger.excluded, "left"))
    shown = [way for way in ways if way.count or way.color == "kept"]
    reasons = {"filtered": filtered, "quarantined": refused}
    return {
        "flow": place_flow(Node("read", ledger.read, "total", shown)),
        "spoken": ", ".join(f"{way.count:,} {way.name}" for way in ways),
        "ways": [(way, list(reasons.get(way.name, {}).items())[:_MOST_ROWS]) for way in ways],
    }


def _splits(reported: ReportedSet) -> list[Node]:
    nodes = []
    for number, (name, split) in enumerate(reported.manifest.splits.items()):
        count, amount = split.records, ""
        if reported.packed:  # sequences are another unit: they share the width of the documents
            count = round(reported.manifest.ledger.kept * count / max(1, reported.records))
            amount = counted(split.records, "sequence")
        nodes.append(Node(name, count, f"s{number % 6}", amount=amount))
    return nodes


def _reasons(reasons: Mapping[str, int], color: str) -> list[Node]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    nodes = [Node(foreign(reason, 30), count, color) for reason, count in ordered[:_MOST_REASONS]]
    rest = [count for _, count in ordered[_MOST_REASONS:]]
    return [*nodes, Node(f"{len(rest)} more reasons", sum(rest), color)] if rest else nodes


def place_flow(total: Node) -> Flow:
    """Places the bars of a total, its children and theirs, with bands between them and labels."""
    second = list(total.children)
    third = [grandchild for child in second for grandchild in child.children]
    bars = [total, *second, *third]
    for left, nodes in zip(_COLUMNS, ([total], second, third), strict=True):
        for node in nodes:
            node.left = left * _WIDTH
            node.thickness = max(_THINNEST, node.count / max(1, total.count) * _HEIGHT)
    total.thickness = sum(child.thickness for child in second)
    total.top = _TOP
    height = max(total.top + total.thickness, _place(second))
    labels = [Label(bar, bar.left / _WIDTH * 100, bar.top - _LABEL, False) for bar in bars]
    for at, node in enumerate(third, 1 + len(second)):
        labels[at] = Label(node, 100, node.top + node.thickness / 2, True)
    return Flow(height, [band for bar in bars for band in _bands(bar)], bars, labels)


def _place(second: Sequence[Node]) -> float:
    """Places the bars of two columns; returns the lower end of all.

    A bar begins where its first child does: no band rises into the label of the bar. The label
    below is under the bands, which have hardly begun to fall there.
    """
    top = top_of_child = end = float(_TOP)
    for node in second:
        node.top = max(top, top_of_child) if node.children else top
        top_of_child = max(top_of_child, node.top)
        for child in node.children:
            child.top = top_of_child
            end = max(end, child.top + _PITCH)
            top_of_child += max(child.thickness + _GAP, _PITCH)
        bottom = node.top + node.thickness
        top = bottom + _TOP
        if node.children:
            fall = node.children[-1].top + node.children[-1].thickness - bottom
            top = max(top, bottom + _FALL * fall + _HALF_LINE + _LABEL)
    return max(end, top - _TOP, top_of_child - _GAP)


def _bands(node: Node) -> list[Band]:
    """The bands from a bar to its children, each in proportion to what the child counts."""
    divided = sum(child.count for child in node.children)
    top = node.top
    bands = []
    for child in node.children:
        if child.count:
            bottom = top + node.thickness * child.count / divided
            end = child.top + child.thickness
            bands.append(
                Band(child.color, node.left + _BAR, top, bottom, child.left, child.top, end)
            )
            top = bottom
    return bands
