"""The ledger as a flow: what was read, and how much of it each split holds or each reason took."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from beam_jobs.report.markup import Html, drawing, element, escape, foreign, note, scrolling, table
from beam_jobs.report.sampling import ReportedSet
from foundation.wording import counted

_MOST_REASONS = 8  # with their own bar in the flow
_MOST_ROWS = 40  # of reasons in the table

# The drawing, in pixels; its width is stretched to that of the page.
_HEIGHT = 190  # of all records together
_PITCH = 24  # from one label to the next, at least
_TOP = 36  # above a bar, for its label
_LABEL = 13  # from the middle of a label to the bar below it
_GAP = 10  # between two bars whose labels are to their right
_THINNEST = 2.0  # so that one record of a million is visible
_WIDTH = 1000
_BAR = 12
_COLUMNS = (0.0, 0.3, 1 - _BAR / _WIDTH)  # left edge of the bars, as a part of the width


@dataclasses.dataclass
class Node:
    """One bar of the flow.

    Attributes:
        name: Its label, already markup.
        count: Records that pass it.
        color: A class of the style sheet.
        children: What it divides into. They need not sum to `count`: bands show proportions.
        amount: The amount in the label; the count if None.
    """

    name: Html
    count: int
    color: str
    children: Sequence[Node] = ()
    amount: str | None = None
    top: float = 0.0
    thickness: float = 0.0


def content(reported: ReportedSet) -> Html:
    """Returns the flow, and the same as a table."""
    ledger = reported.manifest.ledger
    refused = {item.reason: item.records for item in reported.refused if item.stage != "filter"}
    # The ledger has one list of reasons: what was not refused was filtered, here or in planning.
    filtered = {reason: count for reason, count in ledger.reasons.items() if reason not in refused}
    ways = [
        Node(escape("kept"), ledger.kept, "kept", _splits(reported)),
        Node(escape("duplicates"), ledger.duplicates, "left"),
        Node(escape("filtered"), ledger.filtered, "left", _reasons(filtered, "left")),
        Node(escape("quarantined"), ledger.quarantined, "refused", _reasons(refused, "refused")),
    ]
    if ledger.excluded:
        ways.append(Node(escape("kept out"), ledger.excluded, "left"))
    shown = [way for way in ways if way.count or way.color == "kept"]
    spoken = ", ".join(f"{way.count:,} {way.name}" for way in ways)
    flow = draw_flow(
        Node(escape("read"), ledger.read, "total", shown), f"Of {ledger.read:,} read: {spoken}"
    )
    rows: list[tuple[object, ...]] = [("read", f"{ledger.read:,}", "")]
    for way, reasons in zip(ways, ({}, {}, filtered, refused, {}), strict=False):
        rows.append((way.name, f"{way.count:,}", _share(way.count, ledger.read)))
        rows += [
            (element("span", foreign(reason, 36), class_="inner"), f"{count:,}", "")
            for reason, count in list(reasons.items())[:_MOST_ROWS]
        ]
    listing = table(("", "records", "share"), rows)
    parts = element("div", scrolling(flow, "flow"), listing, class_="flow-and-table")
    return escape((parts, _not_enlarged(reported), _balance(reported)))


def _splits(reported: ReportedSet) -> list[Node]:
    nodes = []
    for number, (name, split) in enumerate(reported.manifest.splits.items()):
        count, amount = split.records, None
        if reported.packed:  # sequences are another unit: they share the width of the documents
            count = round(reported.manifest.ledger.kept * count / max(1, reported.records))
            amount = counted(split.records, "sequence")
        nodes.append(Node(escape(name), count, f"s{number % 6}", amount=amount))
    return nodes


def _reasons(reasons: Mapping[str, int], color: str) -> list[Node]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    nodes = [Node(foreign(reason, 30), count, color) for reason, count in ordered[:_MOST_REASONS]]
    rest = ordered[_MOST_REASONS:]
    if rest:
        name = escape(f"{len(rest)} more reasons")
        nodes.append(Node(name, sum(count for _, count in rest), color))
    return nodes


def _share(count: int, total: int) -> str:
    return f"{count / total:.2%}" if total else ""


def _not_enlarged(reported: ReportedSet) -> Html | None:
    manifest = reported.manifest
    count = manifest.ledger.not_enlarged
    if not count:
        return None
    resize = foreign(str(manifest.config.get("resize")))
    kept = f"{count:,} of the kept images are" if count > 1 else "1 of the kept images is"
    return note((f"{kept} smaller than --resize ", resize, " asks, and not enlarged."))


def _balance(reported: ReportedSet) -> Html | None:
    difference = reported.records - reported.manifest.ledger.kept
    if not difference:
        return None
    if reported.packed:
        return note(
            f"The {reported.manifest.ledger.kept:,} documents that were kept are packed into "
            f"{reported.records:,} sequences, which are the records of the splits."
        )
    what = "more" if difference > 0 else "fewer"
    return note(
        f"The splits hold {abs(difference):,} records {what} than were kept: class balance repeats "
        "records or leaves some out."
    )


def draw_flow(total: Node, description: str) -> Html:
    """Returns the flow from the total to its children and theirs, as bands between bars.

    Bars and bands are one SVG that is stretched to the width of the page. Labels are text of the
    page placed over it, so they keep their size on every screen. They are above the bars of the
    first two columns and to the right of the last one, where no band passes.

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
    height = max(total.top + total.thickness, _place(second))
    bands = [_bands(total, 0)] + [_bands(child, 1) for child in second]
    bars = [
        _bar(node, column)
        for column, nodes in enumerate(([total], second, third))
        for node in nodes
    ]
    style = f"height:{height:.1f}px"
    flow = drawing((bands, bars), f"{_WIDTH} {height:.1f}", description, style=style)
    labels = [_label(total, "", _COLUMNS[0], total.top - _LABEL)]
    labels += [_label(node, "", _COLUMNS[1], node.top - _LABEL) for node in second]
    labels += [_label(node, "last", 1.0, _middle(node)) for node in third]
    return element("div", flow, labels, class_="flow", style=style)


def _place(second: Sequence[Node]) -> float:
    """Places the bars of two columns; returns the lower end of all.

    A bar begins where its first child does: no band rises into the label of the bar, and those
    that fall have hardly begun to at the label below.
    """
    top = top_of_child = end = float(_TOP)
    for node in second:
        node.top = max(top, top_of_child) if node.children else top
        top_of_child = max(top_of_child, node.top)
        for child in node.children:
            child.top = top_of_child
            end = max(end, child.top + _PITCH)
            top_of_child += max(child.thickness + _GAP, _PITCH)
        top = node.top + node.thickness + _TOP
    return max(end, top - _TOP, top_of_child - _GAP)


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
                class_=f"band {child.color}",
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
        class_=node.color,
    )


def _label(node: Node, kind: str, left: float, middle: float) -> Html:
    amount = f"{node.count:,}" if node.amount is None else node.amount
    content = (node.name, " ", element("strong", amount))
    style = f"top:{middle:.1f}px;left:{100 * left:.1f}%"
    # For screen readers, the table next to the flow has the same numbers.
    return element("span", content, class_=f"label {kind}".strip(), style=style, aria_hidden="true")
