"""How many records of each class every split has."""

from __future__ import annotations

from beam_jobs.report.charts import legend, rank_curve, stacked_bar
from beam_jobs.report.finished_set import LabelClasses
from beam_jobs.report.markup import Html, element, escape, figure, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from shard_format.wording import counted

_MOST_ROWS = 40


def content(reported: ReportedSet) -> Html:
    """For every label a table with bars; beyond its rows, a curve over all classes."""
    if not reported.labels:
        return note("The records of this set have no labels.")
    return escape([_label(classes) for classes in reported.labels])


def _label(classes: LabelClasses) -> Html:
    names, counts, weights = classes.class_names, classes.counts, classes.weights
    totals = [sum(int(counts[split][label]) for split in counts) for label in range(len(names))]
    shown = list(range(len(names)))
    if len(names) > _MOST_ROWS:
        shown = sorted(shown, key=lambda label: (-totals[label], label))[:_MOST_ROWS]
    rows = []
    for label in shown:
        own = [int(counts[split][label]) for split in counts]
        cells = [f"{count:,}" for count in own]
        if weights:
            weight = weights.get(names[label])
            cells.append("" if weight is None else f"{weight:.4g}")
        heading = (foreign(names[label], 60), stacked_bar(own, max(1, *totals)))
        rows.append((heading, *cells))
    head = ("class", *counts, *(("weight",) if weights else ()))
    return escape(
        (
            element("h3", foreign(classes.name, 60)) if classes.name else None,
            _summary(totals),
            legend(list(counts)),
            table(head, rows, kind="classes"),
            _rest(names, totals, len(shown)),
        )
    )


def _summary(totals: list[int]) -> Html:
    most, least = max(totals), min(totals)
    text = counted(len(totals), "class", "classes")
    if most == least:
        return note(f"{text} of {counted(most, 'record')}.")
    text += f" of {least:,} to {counted(most, 'record')}"
    if least:
        return note(f"{text}; the largest is {most / least:.1f} times the smallest.")
    return note(f"{text}; {sum(not total for total in totals):,} without a record.")


def _rest(names: tuple[str, ...], totals: list[int], shown: int) -> Html | None:
    rest = sorted(totals, reverse=True)[shown:]
    if not rest:
        return None
    curve = rank_curve(totals, f"Records of all {len(names):,} classes, most frequent first")
    caption = (
        f"And {counted(len(rest), 'more class', 'more classes')} of {rest[-1]:,} to "
        f"{counted(rest[0], 'record')}. The curve is over all {len(names):,}, most frequent "
        "first, on a log scale."
    )
    return figure(curve, caption, class_="histogram wide")
