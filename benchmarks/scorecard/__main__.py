"""The scorecard: `python -m benchmarks.scorecard [--only ROW ...]`, or `make scorecard`.

Runs the subjects of every row in turns, each run in a process of its own, and writes
benchmarks/results/scorecard.json, docs/scorecard.md with its charts, and the table in README.md.
A row that was interrupted goes on where it was. Peers are measured where `make peers` installed
them; without, their lines are missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measure import HERE, parser
from benchmarks.scorecard.page import RESULTS, table, write_pages
from benchmarks.scorecard.row import Bench
from benchmarks.scorecard.rows import ROWS
from benchmarks.scorecard.taking_turns import measure_row


def main() -> None:
    """Measures rows, prints their tables, writes results and pages."""
    arguments = parser("scorecard", __doc__)
    arguments.set_defaults(turns=5)
    arguments.add_argument("--only", choices=ROWS, action="append", metavar="ROW", help=_help())
    arguments.add_argument("--subject", action="append", default=[], help="only these of a row")
    arguments.add_argument(
        "--peers", type=Path, default=HERE.parent / ".peers", help="environments"
    )
    arguments.add_argument(
        "--small", action="store_true", help="the smallest sizes; writes nothing"
    )
    arguments.add_argument("--pages", action="store_true", help="only write the pages again")
    chosen = arguments.parse_args()
    bench = Bench(chosen.work, chosen.peers.absolute(), chosen.small)
    is_whole = not (chosen.small or chosen.subject)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in () if chosen.pages else chosen.only or ROWS:
        measured = measure_row(ROWS[name], bench, chosen.turns, chosen.subject)
        print(f"\n{ROWS[name].title}\n{table(ROWS[name], measured)}", flush=True)
        if not measured["subjects"]:
            print(f"{name}: no subject did it, and earlier results stay", flush=True)
            continue
        results[name] = measured
        if is_whole:
            _write(results)
    if is_whole:
        write_pages(_write(results))


def _write(results: dict[str, Any]) -> dict[str, Any]:
    """Writes the results, and returns them in the order of the rows."""
    results = {name: results[name] for name in ROWS if name in results}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return results


def _help() -> str:
    return "one of " + ", ".join(ROWS)


if __name__ == "__main__":
    main()
