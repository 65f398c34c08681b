"""How fast the build was, by stage, and on which machine; the only part that differs by build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from foundation.wording import format_bytes

_MOST_STAGES = 50


def content(reported: ReportedSet) -> Content:
    """Total, stages, machine and versions, as far as build.json has them."""
    build = reported.build
    if not build:
        return "There is no build.json, so it is not known how this set was built."
    listed = build.get("stages")
    stages = [
        {
            "name": item.get("name"),
            **{key: _number(item.get(key)) for key in ("seconds", "records")},
        }
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    ]
    return {
        "seconds": _number(build.get("seconds")),
        "rate": _number(build.get("records_per_second")),
        "reused": _number(build.get("units_reused")),
        "units": _number(build.get("units")),
        "stages": stages[:_MOST_STAGES],
        "longest": max((stage["seconds"] or 0.0 for stage in stages), default=0.0),
        "machine": _machine(build),
    }


def _machine(build: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for part in ("machine", "packages"):
        values = build.get(part)
        for name, value in values.items() if isinstance(values, dict) else ():
            size = _number(value) if name == "memory_bytes" else None
            shown = format_bytes(size) if size is not None else str(value)
            rows.append((name.removesuffix("_bytes"), shown))
    return rows


def _number(value: object) -> float | None:
    """The value if it is a number of at least 0: no root hash covers build.json."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18:
        return float(value)
    return None
