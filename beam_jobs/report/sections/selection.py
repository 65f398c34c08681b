"""Some of the records that --where and --top left out, with the values that decided it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.report.markup import plain_number
from beam_jobs.report.previews import Excerpt
from beam_jobs.report.sections.base import Content


class SelectionRule(NamedTuple):
    """A rule that left records out.

    Attributes:
        reason: Its name in the ledger.
        option: The option of it, with the value of this build.
        records: Number of records that it left out.
        examples: Some of them: id, values by column, beginning of the text or None.
    """

    reason: str
    option: str
    records: int
    examples: list[tuple[str, Mapping[str, str], Excerpt | None]]


def content(reported: FinishedSet) -> Content:
    """The examples of build.json, which no root hash covers."""
    listed, options = reported.build.get("left_out"), reported.build.get("options")
    if not isinstance(listed, dict) or not isinstance(options, dict):
        return None
    named = {
        "where": f"--where {options.get('where')!r}",
        "not-in-top": f"--top {options.get('top')} --by {options.get('by')}",
    }
    reasons = reported.manifest.ledger.reasons
    rules = [
        SelectionRule(
            reason, named[reason], reasons.get(reason, 0), [*map(_example, filter(_is_one, own))]
        )
        for reason, own in listed.items()
        if reason in named and isinstance(own, list)
    ]
    return {"rules": rules} if rules else None


def _is_one(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("values"), dict)


def _example(value: dict[str, Any]) -> tuple[str, Mapping[str, str], Excerpt | None]:
    text = value.get("text")
    return (
        str(value.get("record_id")),
        {name: _shown(one) for name, one in value["values"].items()},
        Excerpt(text, more=False) if isinstance(text, str) else None,
    )


def _shown(value: object) -> str:
    if value is None:
        return "no value"
    return plain_number(value) if isinstance(value, int | float) else str(value)
