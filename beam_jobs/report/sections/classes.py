"""How many records of each class every split has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from beam_jobs.report.charts import legend, rank_curve, stacked_bar
from beam_jobs.report.finished_set import LabelClasses
from beam_jobs.report.markup import Html, element, escape, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from foundation.wording import counted

_MOST_ROWS = 40  # up to which every class has its row
_ENDS = 10  # of more classes, the most and the least frequent that have one


def content(reported: ReportedSet) -> Html:
    """For every label a table with bars; of many classes both ends, and a curve over all."""
    labels = reported.labels
    if not labels:
        return note("The records of this set have no labels.")
    return escape([_label(classes) for classes in labels])


def _label(classes: LabelClasses) -> Html:
    counts, every = classes.counts, range(len(classes.class_names))
    totals = [sum(int(counts[split][label]) for split in counts) for label in every]
    ranked = sorted(every, key=lambda label: (-totals[label], label))
    shown: list[Html | None] = [
        element("h3", foreign(classes.name, 60)) if classes.name else None,
        _summary(totals),
    ]
    if len(totals) <= _MOST_ROWS:
        shown += [legend(counts), _table(classes, totals, every)]
    elif min(totals) == max(totals):
        first = f"The first {_ENDS} of {len(totals):,} classes"
        shown += [legend(counts), _table(classes, totals, every[:_ENDS], first)]
    else:
        most = _table(classes, totals, ranked[:_ENDS], f"The {_ENDS} most frequent classes")
        least = _table(classes, totals, ranked[-_ENDS:], f"The {_ENDS} least frequent classes")
        shown += [_curve(totals), legend(counts), element("div", most, least, class_="pair")]
    return escape(shown)


def _table(
    classes: LabelClasses, totals: list[int], labels: Sequence[int], caption: str | None = None
) -> Html:
    """Returns a row for each of some classes, with its records in every split."""
    names, counts, weights = classes.class_names, classes.counts, classes.weights
    rows = []
    for label in labels:
        own = [int(counts[split][label]) for split in counts]
        cells = [f"{count:,}" for count in own]
        if weights:
            weight = weights.get(names[label])
            cells.append("" if weight is None else f"{weight:.4g}")
        heading = (foreign(names[label], 60), stacked_bar(own, max(1, *totals)))
        rows.append((heading, *cells))
    head = ("class", *counts, *(("weight",) if weights else ()))
    return table(head, rows, caption, kind="classes")


def _summary(totals: list[int]) -> Html:
    most, least = max(totals), min(totals)
    text = counted(len(totals), "class", "classes")
    if most == least:
        return note(f"{text} of {counted(most, 'record')}.")
    text += f" of {least:,} to {counted(most, 'record')}"
    if least:
        return note(f"{text}; the largest is {most / least:.1f} times the smallest.")
    return note(f"{text}; {sum(not total for total in totals):,} without a record.")


def _curve(totals: list[int]) -> Html:
    """Returns how the number of records falls from class to class."""
    ordered = sorted(totals, reverse=True)
    running = list(itertools.accumulate(ordered))
    half = 1 + next(at for at, total in enumerate(running) if 2 * total >= running[-1])
    title = f"Records of all {len(totals):,} classes, most frequent first"
    caption = f"{title}; log scale. The {half:,} largest have half of the records."
    return rank_curve(ordered, title, caption)
