"""How fast the build was, by stage, and on which machine; the only part that differs by build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.report.charts import stacked_bar
from beam_jobs.report.markup import Html, escape, folded, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from foundation.wording import format_bytes

_MOST_STAGES = 50


def content(reported: ReportedSet) -> Html:
    """Stages, total, machine and versions, as far as build.json has them."""
    build = reported.build
    if not build:
        return note("There is no build.json, so it is not known how this set was built.")
    return escape((_total(build), _stages(build), _machine(build)))


def _total(build: Mapping[str, Any]) -> Html | None:
    seconds, rate = _number(build.get("seconds")), _number(build.get("records_per_second"))
    if seconds is None:
        return None
    text = f"Built in {seconds:,.1f} s"
    text += f", {rate:,.0f} records/s over all" if rate else ""
    reused, units = _number(build.get("units_reused")), _number(build.get("units"))
    text += f"; {reused:,.0f} of {units:,.0f} units were reused" if reused and units else ""
    return note(
        (text, ", started ", foreign(str(build["started"]), 40), ".")
        if "started" in build
        else f"{text}."
    )


def _stages(build: Mapping[str, Any]) -> Html | None:
    stages = build.get("stages")
    rows = []
    known = [item for item in stages if isinstance(item, dict)] if isinstance(stages, list) else []
    longest = max((_number(item.get("seconds")) or 0.0 for item in known), default=0.0)
    for item in known[:_MOST_STAGES]:
        seconds, records = _number(item.get("seconds")), _number(item.get("records"))
        bar = stacked_bar([seconds or 0.0], longest)
        rate = f"{records / seconds:,.0f}" if seconds and records is not None else ""
        rows.append(
            (
                (foreign(str(item.get("name")), 40), bar),
                "" if seconds is None else f"{seconds:,.2f}",
                "" if records is None else f"{records:,.0f}",
                rate,
            )
        )
    head = ("stage", "seconds", "records", "records/s")
    return table(head, rows, kind="classes") if rows else None


def _machine(build: Mapping[str, Any]) -> Html:
    rows: list[tuple[object, ...]] = []
    for part in ("machine", "packages"):
        values = build.get(part)
        for name, value in values.items() if isinstance(values, dict) else ():
            size = _number(value) if name == "memory_bytes" else None
            shown = format_bytes(size) if size is not None else str(value)
            rows.append((foreign(str(name).removesuffix("_bytes"), 60), foreign(shown)))
    return folded("Machine and versions", ("", "value"), rows)


def _number(value: object) -> float | None:
    """Returns the value if it is a number of at least 0: no root hash covers build.json."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18:
        return float(value)
    return None
