"""Statistics of a shard set, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cli.console import print_table, say, stdout, table
from foundation.wording import counted, shortened, visible
from shard_format import Manifest

_SHOWN_CLASSES = 20  # more would push the summary off the screen; --json has all
_NAME_WIDTH = 40
_LABEL_WIDTH = 10  # of the words in front of a line
_CHANNELS = ("red", "green", "blue")
_WHITE = 255


def print_classes(manifest: Manifest) -> None:
    """Prints, for every label, the records per class and split, and class weights if any."""
    for label, statistics in _by_label(manifest):
        title = f"Classes of {shortened(visible(label), _NAME_WIDTH)}" if label else "Classes"
        _print_classes(title, statistics)


def _by_label(manifest: Manifest) -> Iterator[tuple[str, dict[str, Mapping[str, Any]]]]:
    """(name, class statistics by split) of every label; the first is the main one, called ""."""
    splits = {name: split.statistics for name, split in manifest.splits.items()}
    yield "", splits
    for label in dict.fromkeys(label for own in splits.values() for label in own.get("labels", {})):
        yield label, {name: own.get("labels", {}).get(label, {}) for name, own in splits.items()}


def _print_classes(title: str, statistics: Mapping[str, Mapping[str, Any]]) -> None:
    names = list(statistics)
    weights = _class_weights(statistics)
    last = ("weight",) if weights else ()
    rows = table(title, "class", *names, *last, right=(*names, *last))
    counts = {name: own.get("class_counts", {}) for name, own in statistics.items()}
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
    """Prints, for every label, how many classes there are, and the smallest and the largest one."""
    for label, statistics in _by_label(manifest):
        name, first = next(iter(statistics.items()))
        counts = first.get("class_counts")
        if isinstance(counts, dict) and counts:
            what = shortened(visible(label), _LABEL_WIDTH) or "classes"
            say(f"{what:<{_LABEL_WIDTH}} {_class_range(name, counts, label)}")


def _class_range(name: str, counts: dict[str, int], label: str) -> str:
    smallest, largest = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    each = f"{counts[smallest]:,} records each"
    if counts[smallest] != counts[largest]:
        few, many = (shortened(visible(one), _NAME_WIDTH) for one in (smallest, largest))
        each = f"{counts[smallest]:,} ({few}) to {counts[largest]:,} records ({many})"
    number = counted(len(counts), "class", "classes") if label else f"{len(counts):,}"
    return f"{number}; in {name} {each}"


def _class_weights(statistics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    for own in statistics.values():
        weights = own.get("class_weights")
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
        print_table(rows)


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
        print_table(rows)
