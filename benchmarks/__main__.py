"""Runs the comparisons one after the other: `python -m benchmarks [NAME ...]` or `make bench`.

Without names: the scorecard, near duplicates of images and of texts, memory. Each has options of
its own, `python -m benchmarks.NAME --help`, and writes benchmarks/results/NAME.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

_COMPARISONS = ("scorecard", "near_duplicates", "near_texts", "memory")


def main() -> None:
    """Runs each in a process of its own; a failure ends it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_COMPARISONS))
    for name in parser.parse_args().names or _COMPARISONS:
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
