"""How long training stops for a checkpoint: `python -m benchmarks.checkpoint_pause`.

Dense layers with AdamW, so that a checkpoint holds three values a parameter. In one process, in
turns: a save that the loop waits for, and one that is written in the background. Also measured is
the step behind the latter, which copies the variables that the checkpoint still holds, and shares
the cores with the writer. Results go to benchmarks/results/checkpoint_pause.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, run

_HERE = Path(__file__).parent


def main() -> None:
    """Measures models of several sizes, prints a table, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.checkpoint_pause", description=__doc__
    )
    parser.add_argument("--millions", default="10,30,100", help="parameters of the models")
    parser.add_argument("--saves", type=int, default=8, help="of each kind; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="where they are written")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "saves": arguments.saves,
        "models": {},
    }
    titles = ("step", "pause", "greatest", "step behind it", "synchronous", "ratio")
    print(
        f"{'parameters':<14}" + "".join(f"{title + ' ms':>18}" for title in titles[:-1]), titles[-1]
    )
    for millions in arguments.millions.split(","):
        found = run("checkpoint_step", millions, arguments.saves + 1, work).details
        found["ratio"] = found["pause_ms"] / found["synchronous_ms"]
        rounded = {name: round(value, 4 if name == "ratio" else 2) for name, value in found.items()}
        results["models"][millions] = rounded
        names = ("step_ms", "pause_ms", "greatest_pause_ms", "next_step_ms", "synchronous_ms")
        row = "".join(f"{found[name]:>18.1f}" for name in names)
        print(f"{found['parameters']:<14,.0f}{row} {found['ratio']:.4f}", flush=True)
    file = _HERE / "results" / "checkpoint_pause.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


if __name__ == "__main__":
    main()
