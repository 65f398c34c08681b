"""How much stages work at the same moment: `python -m benchmarks.stages [--stages N]`.

Eight Dense layers of 1,536 x 1,536 in stages on logical devices of this machine's CPU, compared
with one device that adds up the gradients of as many micro-batches. An operation has one thread.
A device of a CPU may have several operations at work, where a GPU has one: so the trace says how
much stages overlap, and how many operations are at work at the same moment.
"""

from __future__ import annotations

import functools
import statistics

from benchmarks.measure import parser, run, take_turns, write


def main() -> None:
    """Measures both, prints tables and writes the results."""
    options = parser("stages", __doc__)
    options.add_argument("--stages", type=int, default=2, choices=range(2, 9))
    options.add_argument("--microbatches", type=int, default=8)
    arguments = options.parse_args()
    stages, microbatches = arguments.stages, arguments.microbatches
    staged, traced = f"{stages} stages", f"{stages} stages, traced"
    ways = {
        "one device": functools.partial(run, "stage_step", 1, microbatches),
        staged: functools.partial(run, "stage_step", stages, microbatches),
        traced: functools.partial(run, "stage_step", stages, microbatches, "traced"),
    }
    results = take_turns("steps of a model", ways, arguments.turns)
    traces = [one["details"] for one in results[traced]["runs"]]
    shares = {
        name: statistics.median(trace[name] for trace in traces)
        for name in ("all_busy", "operations_at_once")
    }
    # GPipe (Huang et al. 2019), section 2.3: a stage waits for the others at both ends of a step.
    shares["gpipe_busy"] = round(microbatches / (microbatches + stages - 1), 3)
    print("of the time in which any stage works:", shares)
    write("stages", {"of_steps": results, "shares": shares})


if __name__ == "__main__":
    main()
