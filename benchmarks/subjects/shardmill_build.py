"""shardmill: a corpus to a verified, shuffled, split shard set."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from beam_jobs.engine.logs import quiet_beam
from benchmarks.subjects.clock import measure
from benchmarks.subjects.output import prepare


def main() -> None:
    """Arguments: RECORD_TYPE SOURCE OUT OPTIONS, the options as JSON."""
    record_type, source, out, given = sys.argv[1:]
    quiet_beam()
    from beam_jobs.options import OPTIONS
    from beam_jobs.record_types import RECORD_TYPES
    from beam_jobs.run import preprocess

    # report.html is left out: it takes some 0.4 s however large the corpus is.
    options = OPTIONS[record_type]((source,), out, no_report=True, **json.loads(given))
    RECORD_TYPES[record_type]
    prepare(Path(out))
    details: dict[str, Any] = {}

    def build() -> int:
        manifest = preprocess(options).manifest
        details["root_hash"] = manifest.root_hash
        return manifest.ledger.read

    measure(build, details)


if __name__ == "__main__":
    main()
