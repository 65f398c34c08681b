"""What a job would do, for a terminal."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cli.console import say
from foundation.options import flag_of
from foundation.wording import counted, format_bytes, some_of, visible

if TYPE_CHECKING:
    from beam_jobs import DryRun
    from beam_jobs.dry_run import Growth

_WIDTH = 80
_INDENT = " " * 11
_NAMED = 4  # classes at each end of the list
_MINUTE, _HOUR = 60, 3600  # seconds


def print_dry_run(found: DryRun) -> None:
    """Prints what would be read, the options in effect, and the estimate."""
    for name, text in _lines(found):
        wrapped = textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=f"{name:<11}",
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        say("\n".join(wrapped))


def _lines(found: DryRun) -> Iterator[tuple[str, str]]:
    """(heading, text) of every paragraph."""
    options, trial = found.options, found.trial
    sources = visible(some_of(options.sources))
    yield "read", f"{sources}, as {options.source}"
    inside = f" with {counted(found.items, 'item')}" if found.items != found.files else ""
    yield (
        "files",
        f"{counted(found.files, 'file')}{inside}, {format_bytes(found.bytes)}"
        + (f": {_listed(found.kinds)}" if found.kinds else ""),
    )
    if found.ignored:
        yield "ignored", counted(found.ignored, "hidden file or folder", "hidden files and folders")
    for reason, group in found.rejected.items():
        first = f"the first is {visible(group.record_id)} ({visible(group.detail)})"
        yield "rejected", f"{group.items:,} as {reason}; {first}"
    yield "classes", _classes(found)
    yield "options", _flags(found.given) or "all have their defaults"
    if found.detected:
        yield "detected", _flags(found.detected)
    for note in options.notes:
        yield "note", visible(note)
    yield (
        "work",
        (
            f"{counted(found.workers, 'worker')}, {counted(found.units, 'unit')} of about "
            f"{format_bytes(found.unit_bytes)}"
        ),
    )
    if found.growth is not None:
        yield from _growth(found, found.growth)
    elif found.state == "complete":
        yield "output", f"{options.out} holds this very set already; there is nothing to do"
    elif found.units_staged:
        yield "resumes", f"{found.units_staged:,} of {found.units:,} units are staged already"
    reasons = f"; rejected or filtered: {_listed(trial.reasons)}" if trial.reasons else ""
    if trial.read:
        yield "sample", f"{counted(trial.read, 'record')}, {trial.kept:,} kept{reasons}"
    if trial.read:
        yield from _estimated(found)
    yield "next", "nothing was written; leave out --dry-run to begin"


def _growth(found: DryRun, growth: Growth) -> Iterator[tuple[str, str]]:
    if growth.known:
        yield (
            "known",
            f"{counted(growth.known, 'item')}, {format_bytes(growth.known_bytes)}, were read by "
            "earlier generations and have not changed; they are not read again",
        )
    if growth.already_built:
        yield (
            "append",
            f"{growth.base} has these sources already: generation {growth.generation}; there is "
            "nothing to do",
        )
        return
    kept_out = f", {growth.excluded:,} kept out" if growth.excluded else ""
    yield (
        "append",
        f"generation {growth.generation} of {growth.base}; of the sample {growth.new:,} new, "
        f"{counted(growth.duplicates, 'duplicate')} of the set, {growth.repeated:,} of one "
        f"another, {found.trial.read - found.trial.kept:,} rejected or filtered{kept_out}",
    )


def _estimated(found: DryRun) -> Iterator[tuple[str, str]]:
    estimate = found.estimate
    if estimate is None:
        yield "estimate", "none: how many records the files hold is known once they are read"
        return
    as_text = " as text" if getattr(found.options, "tokenizes", False) else ""
    yield (
        "set",
        f"about {counted(estimate.kept, 'record')} of {estimate.records:,}, "
        f"{format_bytes(estimate.set_bytes)}{as_text}, before duplicates are dropped",
    )
    free = "an object store has room"
    if found.free_bytes is not None:
        short = " (NOT ENOUGH)" if found.free_bytes < estimate.disk_bytes else ""
        free = f"{format_bytes(found.free_bytes)} are free{short}"
    yield (
        "disk",
        f"about {format_bytes(estimate.disk_bytes)} for staged units and the set; {free}",
    )
    yield "time", f"about {_duration(estimate.seconds)}, and a second or two to start and end"


def _classes(found: DryRun) -> str:
    if found.options.no_labels:
        return "none: --no-labels"
    if found.classes:
        return f"{len(found.classes):,}, with files: {_listed(found.classes)}"
    if found.trial.labels:
        labels = dict(sorted(found.trial.labels.items(), key=lambda one: -one[1]))
        return f"{len(labels):,} in the sample: {_listed(labels)}"
    return "none found"


def _listed(counts: Mapping[str, int]) -> str:
    """Names and numbers, the middle left out: "hat 40, dress 33, ..., skirt 2"."""
    parts = [f"{visible(name)} {count:,}" for name, count in counts.items()]
    if len(parts) > 2 * _NAMED + 1:
        parts = [*parts[:_NAMED], "...", *parts[-_NAMED:]]
    return ", ".join(parts)


def _flags(values: Mapping[str, Any]) -> str:
    parts = []
    for name, value in values.items():
        parts.append(flag_of(name))
        if value is not True:
            parts[-1] += f" {shlex.quote(visible(str(value)))}"
    return " ".join(parts)


def _duration(seconds: float) -> str:
    """About how long, for people: "20 s", "35 min", "7 h"."""
    if seconds < 2 * _MINUTE:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.0f} h"
