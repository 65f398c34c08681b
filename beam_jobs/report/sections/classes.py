"""How many records of each class every split has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_jobs.report.charts import rank_curve
from beam_jobs.report.finished_set import LabelClasses
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content

_MOST_ROWS = 40  # up to which every class has its row
_ENDS = 10  # of more classes, the most and the least frequent that have one


def content(reported: ReportedSet) -> Content:
    """For every label a table with bars; of many classes both ends, and a curve over all."""
    if not reported.labels:
        return "The records of this set have no labels."
    return {"labels": [_label(classes) for classes in reported.labels]}


def _label(classes: LabelClasses) -> dict[str, Any]:
    every = range(len(classes.class_names))
    totals = [sum(int(counts[label]) for counts in classes.counts.values()) for label in every]
    ranked = sorted(every, key=lambda label: (-totals[label], label))
    uneven = min(totals) < max(totals)
    tables: dict[str | None, Sequence[int]]
    if len(totals) <= _MOST_ROWS:
        tables = {None: every}
    elif uneven:
        tables = {
            f"The {_ENDS} most frequent classes": ranked[:_ENDS],
            f"The {_ENDS} least frequent classes": ranked[-_ENDS:],
        }
    else:
        tables = {f"The first {_ENDS} of {len(totals):,} classes": every[:_ENDS]}
    return {
        "classes": classes,
        "totals": totals,
        "curve": rank_curve(sorted(totals, reverse=True)) if len(tables) > 1 else None,
        "greatest": max(1, *totals),
        "tables": tables,
    }
