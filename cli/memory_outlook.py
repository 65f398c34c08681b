"""What a training needs of its devices, for a terminal: `shardmill train --dry-run`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cli.console import print_table, say, table
from foundation.wording import format_bytes

if TYPE_CHECKING:
    from trainer.memory.outlook import Outlook
    from trainer.memory.plan import Way

_PARTS = ("parameters", "optimizer", "activations, gradients", "estimated")


def outlook_as_json(shown: Outlook) -> dict[str, Any]:
    """The outlook in numbers; sizes in bytes."""
    options = shown.options
    return {
        "model": options.model,
        "precision": shown.precision,
        "batch_size": options.batch_size,
        "strategy": options.strategy,
        "num_parameters": shown.num_parameters,
        "devices": [
            {**dataclasses.asdict(one), "estimated": one.total} for one in shown.footprints
        ],
        "measured": shown.measured,
        "device_memory": shown.limit,
        "fits": shown.fits,
        "ways": [
            {"flag": way.flag, "number": way.number, "bytes": way.bytes} for way in shown.ways
        ],
    }


def print_outlook(shown: Outlook) -> None:
    """Prints the memory of each device, and what other options would need."""
    options = shown.options
    say(
        f"model      {options.model}, {shown.num_parameters:,} parameters, {shown.precision}\n"
        f"batches    of {options.batch_size:,}, --strategy {options.strategy}\n"
    )
    _print_devices(shown)
    if shown.ways:
        _print_ways(shown.ways)
    if shown.limit is not None:
        _say_whether_it_fits(shown)
    say("next       nothing was written; leave out --dry-run to begin")


def _print_devices(shown: Outlook) -> None:
    titles = ("device", *_PARTS, *(["measured"] if shown.measured else []))
    rows = table("Memory of a device", *titles, right=titles[1:])
    whole = shown.measured.get("CPU")  # of all logical devices, which share it
    for one in shown.footprints:
        sizes = (one.parameters, one.optimizer, one.step, one.total)
        peak = shown.measured.get(one.device, whole if len(shown.footprints) == 1 else None)
        rows.add_row(one.device, *map(format_bytes, sizes), format_bytes(peak) if peak else None)
    if whole and len(shown.footprints) > 1:
        sums = format_bytes(sum(one.total for one in shown.footprints))
        rows.add_row("all", "", "", "", sums, format_bytes(whole))
    print_table(rows)


def _print_ways(ways: Sequence[Way]) -> None:
    numbers = sorted({way.number for way in ways})
    titles = ("options", *(f"N = {number}" for number in numbers))
    rows = table("Estimates for other options", *titles, right=titles[1:])
    for flag in dict.fromkeys(way.flag for way in ways):
        sizes = {way.number: format_bytes(way.bytes) for way in ways if way.flag == flag}
        rows.add_row(flag, *(sizes.get(number, "") for number in numbers))
    print_table(rows)


def _say_whether_it_fits(shown: Outlook) -> None:
    limit = f"--device-memory {shown.options.device_memory}"
    if shown.fits:
        say(f"fits       {limit}")
        return
    say(f"no         a device needs more than {limit}; nothing was measured")
    for way in shown.fitting():
        say(f"fits       {way.text}: {format_bytes(way.bytes)}")
