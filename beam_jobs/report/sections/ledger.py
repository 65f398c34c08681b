"""The ledger as a flow: what was read, what became of it, and which split the rest is in."""

from __future__ import annotations

from collections.abc import Mapping

from beam_jobs.report.flow import Node, draw_flow
from beam_jobs.report.markup import Html, element, escape, foreign, note, table
from beam_jobs.report.sections.base import Facts
from shard_format.wording import counted

_MOST_REASONS = 8  # bars of their own in the flow
_MOST_ROWS = 40  # of reasons in the table


def content(facts: Facts) -> Html:
    """The flow, and the same as a table."""
    ledger = facts.manifest.ledger
    refused = {item.reason: item.records for item in facts.refused if item.stage != "filter"}
    # The ledger has one list of reasons: what was not refused was filtered, here or in planning.
    filtered = {reason: count for reason, count in ledger.reasons.items() if reason not in refused}
    ways = [
        Node(escape("kept"), ledger.kept, "kept", _splits(facts)),
        Node(escape("duplicates"), ledger.duplicates, "left"),
        Node(escape("filtered"), ledger.filtered, "left", _reasons(filtered, "left")),
        Node(escape("quarantined"), ledger.quarantined, "refused", _reasons(refused, "refused")),
    ]
    shown = [way for way in ways if way.count or way.colour == "kept"]
    spoken = ", ".join(f"{way.count:,} {way.name}" for way in ways)
    flow = draw_flow(
        Node(escape("read"), ledger.read, "total", shown), f"Of {ledger.read:,} read: {spoken}"
    )
    rows: list[tuple[object, ...]] = [("read", f"{ledger.read:,}", "")]
    for way, reasons in zip(ways, ({}, {}, filtered, refused), strict=True):
        rows.append((way.name, f"{way.count:,}", _share(way.count, ledger.read)))
        rows += [
            (element("span", foreign(reason, 36), class_="inner"), f"{count:,}", "")
            for reason, count in list(reasons.items())[:_MOST_ROWS]
        ]
    listing = table(("", "records", "share"), rows)
    parts = element("div", element("div", flow), listing, class_="beside")
    return escape((parts, _balance(facts)))


def _splits(facts: Facts) -> list[Node]:
    nodes = []
    total = sum(split.records for split in facts.manifest.splits.values())
    for number, (name, split) in enumerate(facts.manifest.splits.items()):
        count, amount = split.records, None
        if facts.packed:  # sequences are another unit: they share the width of the documents
            count = round(facts.manifest.ledger.kept * count / max(1, total))
            amount = counted(split.records, "sequence")
        nodes.append(Node(escape(name), count, f"s{number % 6}", amount=amount))
    return nodes


def _reasons(reasons: Mapping[str, int], colour: str) -> list[Node]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    nodes = [Node(foreign(reason, 30), count, colour) for reason, count in ordered[:_MOST_REASONS]]
    rest = ordered[_MOST_REASONS:]
    if rest:
        name = escape(f"{len(rest)} more reasons")
        nodes.append(Node(name, sum(count for _, count in rest), colour))
    return nodes


def _share(count: int, total: int) -> str:
    return f"{count / total:.2%}" if total else ""


def _balance(facts: Facts) -> Html | None:
    records = sum(split.records for split in facts.manifest.splits.values())
    difference = records - facts.manifest.ledger.kept
    if not difference:
        return None
    if facts.packed:
        return note(
            f"The {facts.manifest.ledger.kept:,} documents that were kept are packed into "
            f"{records:,} sequences, which are the records of the splits."
        )
    what = "more" if difference > 0 else "fewer"
    return note(
        f"The splits hold {abs(difference):,} records {what} than were kept: class balance repeats "
        "records or leaves some out."
    )
