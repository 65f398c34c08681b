"""A flow of records as bands between bars: how a total divides, and divides again.

Bars and bands are one SVG that is stretched to the width there is; labels are text of the page laid
over it, so that they keep their size on every screen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from beam_jobs.report.markup import Html, element

_HEIGHT = 190  # pixels that all records together take
_PITCH = 24  # pixels from one label to the next, at least
_TOP = 26  # pixels above the first bar, for the label of the total
_GAP = 10  # pixels between two bars
_THINNEST = 2.0  # pixels: one record of a million is still seen
_WIDTH = 1000  # of the drawing, stretched to that of the page
_BAR = 12
_COLUMNS = (0.0, 0.22, 1 - _BAR / _WIDTH)  # left edge of the bars, as a part of the width


@dataclasses.dataclass
class Node:
    """One bar of the flow.

    Attributes:
        name: Its label, already markup.
        count: Records that pass it.
        colour: Class of the style sheet.
        children: What it divides into. They need not sum to `count`: bands show proportions.
        amount: What the label says beside the name; the count if None.
    """

    name: Html
    count: int
    colour: str
    children: Sequence[Node] = ()
    amount: str | None = None
    top: float = 0.0
    thickness: float = 0.0


def draw_flow(total: Node, description: str) -> Html:
    """The flow from the total to its children and theirs.

    Args:
        total: The first bar.
        description: For those who do not see it.
    """
    second = list(total.children)
    third = [grandchild for child in second for grandchild in child.children]
    for node in (total, *second, *third):
        node.thickness = max(_THINNEST, node.count / max(1, total.count) * _HEIGHT)
    total.thickness = sum(child.thickness for child in second)
    total.top = _TOP
    height = max(total.top + total.thickness, _stack(second), _stack(third))
    bands = [_bands(total, 0)] + [_bands(child, 1) for child in second]
    bars = [
        _bar(node, column)
        for column, nodes in enumerate(([total], second, third))
        for node in nodes
    ]
    drawing = element(
        "svg",
        bands,
        bars,
        viewBox=f"0 0 {_WIDTH} {height:.1f}",
        preserveAspectRatio="none",
        style=f"height:{height:.1f}px",
        role="img",
        aria_label=description,
    )
    labels = [_label(total, "first", _COLUMNS[0], total.top - 13)]
    labels += [_label(node, "", _COLUMNS[1] + _BAR / _WIDTH, _middle(node)) for node in second]
    labels += [_label(node, "last", 0.0, _middle(node)) for node in third]
    return element("div", drawing, labels, class_="flow", style=f"height:{height:.1f}px")


def _stack(nodes: Sequence[Node]) -> float:
    """Places bars below each other, far enough apart for their labels; the lower end of it all."""
    top = float(_TOP)
    end = top
    for node in nodes:
        node.top = top
        end = top + max(node.thickness, _PITCH)
        top += max(node.thickness + _GAP, _PITCH)
    return end


def _middle(node: Node) -> float:
    return node.top + node.thickness / 2


def _bands(node: Node, column: int) -> list[Html]:
    """The bands from a node to its children, each in proportion to what the child counts."""
    divided = sum(child.count for child in node.children)
    left = _COLUMNS[column] * _WIDTH + _BAR
    right = _COLUMNS[column + 1] * _WIDTH
    middle = (left + right) / 2
    top = node.top
    drawn = []
    for child in node.children:
        if not child.count:
            continue
        bottom = top + node.thickness * child.count / divided
        end = child.top + child.thickness
        drawn.append(
            element(
                "path",
                d=f"M{left:.1f} {top:.1f}C{middle:.1f} {top:.1f} {middle:.1f} {child.top:.1f} "
                f"{right:.1f} {child.top:.1f}V{end:.1f}C{middle:.1f} {end:.1f} {middle:.1f} "
                f"{bottom:.1f} {left:.1f} {bottom:.1f}Z",
                class_=f"band {child.colour}",
            )
        )
        top = bottom
    return drawn


def _bar(node: Node, column: int) -> Html:
    return element(
        "rect",
        x=f"{_COLUMNS[column] * _WIDTH:.1f}",
        y=f"{node.top:.1f}",
        width=_BAR,
        height=f"{node.thickness:.1f}",
        class_=node.colour,
    )


def _label(node: Node, kind: str, left: float, middle: float) -> Html:
    place = f"top:{middle:.1f}px" + (f";left:{100 * left:.1f}%" if kind != "last" else "")
    amount = f"{node.count:,}" if node.amount is None else node.amount
    content = (node.name, " ", element("strong", amount))
    # Read aloud, the table beside the flow says the same.
    return element("span", content, class_=f"label {kind}".strip(), style=place, aria_hidden="true")
