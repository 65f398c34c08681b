"""shardmill: one JSON Lines file to a verified, shuffled, split shard set."""

from __future__ import annotations

import shutil
import sys
import time

from beam_jobs.engine.logs import quiet_beam
from benchmarks.measure import cpu_seconds, print_result
from benchmarks.subjects.bare_text_kernels import options


def main() -> None:
    """Arguments: SOURCE OUT CLEAN DEDUP."""
    source, out, clean, dedup = sys.argv[1:]
    quiet_beam()
    import beam_jobs.record_types.text  # noqa: F401  (loads the kernels before the clock starts)
    from beam_jobs.run import preprocess

    shutil.rmtree(out, ignore_errors=True)
    begun, cpu_begun = time.perf_counter(), cpu_seconds()
    report = preprocess(options(source, out, clean, dedup))
    seconds = time.perf_counter() - begun
    print_result(report.manifest.ledger.read, seconds, cpu_seconds() - cpu_begun)


if __name__ == "__main__":
    main()
