"""Statistics of a shard set, for a terminal."""

from __future__ import annotations

from typing import Any

from cli.console import say, stdout, table
from shard_format import Manifest
from shard_format.wording import shortened, visible

_SHOWN_CLASSES = 20  # more would push the summary off the screen; --json has all
_NAME_WIDTH = 40
_CHANNELS = ("red", "green", "blue")
_WHITE = 255


def print_classes(manifest: Manifest) -> None:
    """Prints the number of records per class and split, and the class weights if there are any."""
    names = list(manifest.splits)
    weights = _class_weights(manifest)
    last = ("weight",) if weights else ()
    rows = table("Classes", "class", *names, *last, right=(*names, *last))
    counts = {
        name: split.statistics.get("class_counts", {}) for name, split in manifest.splits.items()
    }
    classes = list(next(iter(counts.values()), {}))
    if not classes:
        return
    for class_name in classes[:_SHOWN_CLASSES]:
        cells = [f"{counts[name].get(class_name, 0):,}" for name in names]
        if weights:
            cells.append(f"{weights[class_name]:.4g}" if class_name in weights else "")
        rows.add_row(shortened(visible(class_name), _NAME_WIDTH), *cells)
    console = stdout()
    console.print(rows)
    if len(classes) > _SHOWN_CLASSES:
        console.print(f"and {len(classes) - _SHOWN_CLASSES} more classes; --json lists all")
    console.print()


def print_class_range(manifest: Manifest) -> None:
    """Prints how many classes there are, and the records of the smallest and the largest one."""
    name, split = next(iter(manifest.splits.items()))
    counts = split.statistics.get("class_counts")
    if not isinstance(counts, dict) or not counts:
        return
    smallest, largest = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    each = f"{counts[smallest]:,} records each"
    if counts[smallest] != counts[largest]:
        few, many = (shortened(visible(one), _NAME_WIDTH) for one in (smallest, largest))
        each = f"{counts[smallest]:,} ({few}) to {counts[largest]:,} records ({many})"
    say(f"classes    {len(counts):,}; in {name} {each}")


def _class_weights(manifest: Manifest) -> dict[str, Any]:
    for split in manifest.splits.values():
        weights = split.statistics.get("class_weights")
        if isinstance(weights, dict):
            return weights
    return {}


def print_statistics(manifest: Manifest) -> None:
    """Prints minimum, mean and maximum of every numeric column, split by split."""
    for name, split in manifest.splits.items():
        numeric = {
            column: values
            for column, values in split.statistics.items()
            if isinstance(values, dict)
            and {"min", "max", "mean"} <= values.keys()
            and not isinstance(values["mean"], list)  # channels have a table of their own
        }
        if not numeric:
            continue
        right = ("min", "mean", "max")
        rows = table(f"Statistics of {name}", "column", *right, right=right)
        for column, values in numeric.items():
            rows.add_row(
                column, f"{values['min']:,}", f"{values['mean']:,.1f}", f"{values['max']:,}"
            )
        console = stdout()
        console.print(rows)
        console.print()


def print_channels(manifest: Manifest) -> None:
    """Prints mean and deviation of the color channels, for a normalization layer."""
    for name, split in manifest.splits.items():
        pixels = split.statistics.get("pixels")
        if not isinstance(pixels, dict) or not pixels.get("mean") or not pixels.get("count", 1):
            continue
        right = ("mean", "deviation", "mean / 255", "deviation / 255")
        rows = table(f"Channels of {name}, in [0, 255]", "channel", *right, right=right)
        for channel, *values in zip(_CHANNELS, pixels["mean"], pixels["std"], strict=False):
            whole = [f"{value:.2f}" for value in values]
            rows.add_row(channel, *whole, *(f"{value / _WHITE:.4f}" for value in values))
        console = stdout()
        console.print(rows)
        console.print()
