"""Can a shuffled epoch be distinguished from a random one? `python -m benchmarks.shuffle_quality`.

A corpus of 64,000 documents that is sorted by class (100 of them) is built into a set by the real
command. The reader's orders over it for 100 seeds, and those of a buffer of 10,000 records over the
sorted corpus, are compared with 400 random permutations of numpy's generator, for each statistic by
the Kolmogorov-Smirnov test. A p-value below 0.01 divided by the number of statistics (Bonferroni)
differs from chance. All seeds are fixed.

What "window" does not promise is measured too: records that are neighbors on disk stay in one
window, so single records (not classes) move together from epoch to epoch. A
plot goes to docs. It takes about three minutes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import shuffle_orders as orders
from benchmarks import shuffle_statistics as stats
from benchmarks.measure import HERE, parser, write

SEEDS = 100
RANDOM = 400  # permutations for the comparison
# 0.01 for all comparisons of one way of shuffling.
LEAST_P = 0.01 / (len(stats.OF_ONE) + len(stats.OF_TWO) + len(stats.OF_RECORDS))

_DOTS = 2_000  # in each panel of the plot
_WIDTH, _HEIGHT, _GAP, _TOP = 200, 200, 30, 40  # of a panel, pixels

Values = dict[str, list[float]]


def main() -> None:
    """Builds the set, compares the orders, prints a table and writes the results."""
    options = parser("shuffle_quality", __doc__, turns=False)
    options.add_argument("--records", type=int, default=64_000)
    arguments = options.parse_args()
    directory = _build(arguments.work / f"sorted-{arguments.records}", arguments.records)
    disk, geometry = orders.built_order(directory)
    ways = ways_of(disk, geometry)
    measures = compare(ways, len(disk))
    results = {
        "records": len(disk),
        "classes": stats.CLASSES,
        "seeds": SEEDS,
        "random_permutations": RANDOM,
        "least_p": LEAST_P,
        "ways": measures,
        "neighbours_on_disk": neighbours(ways, disk),
    }
    print_table(measures, results["neighbours_on_disk"])
    write("shuffle_quality", results)
    plot = HERE.parent / "docs" / "shuffle-quality.svg"
    shown = {"sorted corpus": np.arange(len(disk))}
    shown |= {name: ways[name](0, 0) for name in (_BUFFER, _WINDOW, _FULL)}
    plot.write_text(_draw({name: stats.classes_of(order) for name, order in shown.items()}))
    print(f"written to {plot.relative_to(HERE.parent)}")


_BUFFER = "buffer of 10,000"
_WINDOW, _FULL = "reader, window", "reader, full"


def ways_of(disk: stats.Order, geometry: Any) -> dict[str, orders.Orders]:
    """The compared orders by name; the first two of the reader are over the set as built."""
    corpus = np.arange(len(disk))
    return {
        _WINDOW: orders.reader_orders(disk, geometry, "window"),
        _FULL: orders.reader_orders(disk, geometry, "full"),
        "reader, full, sorted on disk": orders.reader_orders(corpus, geometry, "full"),
        "reader, window, sorted on disk": orders.reader_orders(corpus, geometry, "window"),
        _BUFFER: orders.buffer_orders(corpus),
        "16 files interleaved, buffer of 10,000": orders.buffer_orders(
            orders.interleaved(len(disk))
        ),
    }


def values_of(way: orders.Orders, seeds: range) -> Values:
    """Every statistic for every seed; of the first epoch, and of the first two."""
    of_two = {**stats.OF_TWO, **stats.OF_RECORDS}
    values: Values = {name: [] for name in (*stats.OF_ONE, *of_two)}
    for seed in seeds:
        first, second = way(seed, 0), way(seed, 1)
        for name, of_one in stats.OF_ONE.items():
            values[name].append(of_one(first))
        for name, compared in of_two.items():
            values[name].append(compared(first, second))
    return values


def random_values(records: int) -> Values:
    """The same for random permutations."""
    return values_of(
        lambda seed, epoch: orders.uniform_order(records, 2 * seed + epoch), range(RANDOM)
    )


def compare(ways: dict[str, orders.Orders], records: int) -> dict[str, Any]:
    """For every way and statistic: the p-value, its mean and deviation, and those of chance."""
    chance = random_values(records)
    measures: dict[str, Any] = {}
    for name, way in ways.items():
        values = values_of(way, range(SEEDS))
        measures[name] = {
            statistic: {
                "p": float(f"{stats.two_sample_p(values[statistic], chance[statistic]):.3g}"),
                "mean": statistics.mean(values[statistic]),
                "deviation": statistics.stdev(values[statistic]),
                "chance_mean": statistics.mean(chance[statistic]),
                "chance_deviation": statistics.stdev(chance[statistic]),
            }
            for statistic in chance
        }
    return measures


def neighbours(ways: dict[str, orders.Orders], disk: stats.Order) -> dict[str, Any]:
    """How far records that are neighbors on disk are separated, mean over ten seeds."""
    chance = lambda seed, epoch: orders.uniform_order(len(disk), 2 * seed + epoch)  # noqa: E731
    measures = {}
    for name, way in {_WINDOW: ways[_WINDOW], _FULL: ways[_FULL], "chance": chance}.items():
        made = [way(seed, 0) for seed in range(10)]
        measures[name] = {
            "share_in_one_batch": statistics.mean(stats.together(one, disk) for one in made),
            "mean_distance": statistics.mean(stats.distance(one, disk) for one in made),
        }
    return measures


def print_table(found: dict[str, Any], near: dict[str, Any]) -> None:
    """p-values, then neighbours."""
    for way, one in found.items():
        print(way)
        for name, value in one.items():
            verdict = "" if value["p"] >= LEAST_P else "  differs from chance"
            print(f"    {name:<32}p {value['p']:<10.2g}{verdict}")
    for way, one in near.items():
        print(f"{way:<40}" + "  ".join(f"{key} {value:.4g}" for key, value in one.items()))


def _build(work: Path, records: int) -> Path:
    """The set of the sorted corpus, built once."""
    done, source, out = work / "complete", work / "sorted.jsonl", work / "set"
    if not done.exists():
        work.mkdir(parents=True, exist_ok=True)
        orders.write_corpus(source, records)
        arguments = orders.build_options(source, out)
        subprocess.run([sys.executable, "-m", "cli.main", *arguments], check=True)
        done.touch()
    return out


def _draw(panels: dict[str, stats.Order]) -> str:
    """An SVG with a panel for each order: class over position."""
    width = len(panels) * (_WIDTH + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + _HEIGHT + 40}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="14" role="img" '
        'aria-label="Class over position in an epoch">',
        f'<rect width="{width}" height="{_TOP + _HEIGHT + 40}" fill="#ffffff"/>',
    ]
    for number, (name, classes) in enumerate(panels.items()):
        left = _GAP + number * (_WIDTH + _GAP)
        parts += [
            f'<g transform="translate({left} {_TOP})">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#f7f9fc" stroke="#5b7db1"/>',
            f'<path d="{_dots(classes)}" stroke="#1c2733" stroke-width="1.2"/>',
            '<g text-anchor="middle">',
            f'<text x="{_WIDTH // 2}" y="-12" font-weight="bold">{name}</text>',
            f'<text x="{_WIDTH // 2}" y="{_HEIGHT + 20}">position</text>',
            f'<text transform="translate(-8 {_HEIGHT // 2}) rotate(-90)">class</text>',
            "</g></g>",
        ]
    return "\n".join([*parts, "</svg>\n"])


def _dots(classes: stats.Order) -> str:
    """A path of dots: some positions, evenly spread, and their classes."""
    positions = np.linspace(0, len(classes) - 1, _DOTS).astype(np.int64)
    across = positions * _WIDTH // len(classes)
    up = _HEIGHT - 1 - classes[positions] * _HEIGHT // stats.CLASSES
    return "".join(f"M{x} {y}h1.2" for x, y in zip(across, up, strict=True))


if __name__ == "__main__":
    main()
