"""Stage 1 alone: lists a corpus and cuts it into units."""

from __future__ import annotations

import shutil
import sys
import time

from beam_jobs.job_context import JobContext
from beam_jobs.options import ImageOptions
from beam_jobs.stages.list import list_corpus, resolve_options
from benchmarks.measure import print_result


def main(source: str, out: str, labels: str) -> None:
    """Lists once, and deletes the result."""
    begun = time.process_time()  # files are in the page cache, and others use this machine too
    options = resolve_options(ImageOptions((source,), out, labels=labels or None))
    job = JobContext.create(options)
    job.workspace.create()
    listing = list_corpus(job)
    seconds = time.process_time() - begun
    shutil.rmtree(out)
    print_result(listing.items, seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
