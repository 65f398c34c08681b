"""shardmill: class folders to a verified, shuffled, split shard set."""

from __future__ import annotations

import shutil
import sys
import time

from beam_jobs.engine.logs import quiet_beam
from benchmarks.measure import cpu_seconds, print_result
from benchmarks.subjects.bare_kernels import QUALITY, SIDE


def main() -> None:
    """Arguments: SOURCE OUT DEDUP [RESIZE QUALITY]."""
    source, out, dedup, *rest = sys.argv[1:]
    resize, quality = rest or (f"shorter:{SIDE}", str(QUALITY))
    quiet_beam()
    import beam_jobs.record_types.image  # noqa: F401  (loads the kernels before the clock starts)
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    shutil.rmtree(out, ignore_errors=True)
    # report.html is left out: it takes some 0.4 s however large the corpus is.
    options = ImageOptions(
        (source,), out, resize=resize, quality=quality, dedup=dedup, no_report=True
    )
    begun, cpu_begun = time.perf_counter(), cpu_seconds()
    report = preprocess(options)
    seconds = time.perf_counter() - begun
    print_result(report.manifest.ledger.read, seconds, cpu_seconds() - cpu_begun)


if __name__ == "__main__":
    main()
