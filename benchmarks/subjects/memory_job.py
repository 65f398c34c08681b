"""A whole job whose memory is watched from outside; a file says in which stage it is."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from pathlib import Path

from beam_jobs.engine.logs import quiet_beam


def main() -> None:
    """Arguments: image|text SOURCE OUT DEDUP WORKERS SHARD_SIZE STAGE_FILE WORKER_TYPE."""
    record_type, source, out, dedup, workers, shard_size, stage_file, worker_type = sys.argv[1:]
    quiet_beam()
    from beam_jobs.options import OPTIONS
    from beam_jobs.run import preprocess

    further = (
        {"resize": "none"} if record_type == "image" else {"text_column": "text", "clean": "nfc"}
    )
    if worker_type != "auto":  # which earlier versions do not have
        further["worker_type"] = worker_type
    shutil.rmtree(out, ignore_errors=True)
    options = OPTIONS[record_type](
        (source,),
        out,
        dedup=dedup,
        workers=int(workers),
        shard_size=shard_size,
        no_report=True,
        **further,
    )
    begun, entered = time.perf_counter(), set[str]()

    def note(stage: str, done: int, total: int) -> None:
        if stage not in entered:
            entered.add(stage)
            Path(stage_file).write_text(stage)

    report = preprocess(options, on_progress=note)
    ledger = report.manifest.ledger
    print(
        json.dumps(
            {
                "read": ledger.read,
                "duplicates": ledger.duplicates,
                "root_hash": report.manifest.root_hash,
                "seconds": round(time.perf_counter() - begun, 1),
                "cpu_seconds": round(_cpu_seconds(), 1),
            }
        )
    )


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended.

    Not from benchmarks.measure, which is that of the version that runs.
    """
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


if __name__ == "__main__":
    main()
