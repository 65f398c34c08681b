"""The baseline: datatrove's local executor with the same filters and MinHash settings.

The language model is the file that shardmill uses, given as a URL. Without one the filters are left
out, and near duplicates found alone.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.subjects.clock import measure

_FILES = 8  # the executor's tasks are files; a single one would keep a single core busy


def main() -> None:
    """Arguments: SOURCE OUT BANDS ROWS [MODEL]."""
    source, out, bands, rows, *model = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    count = _cut(Path(source), Path(out) / "in")

    def process() -> int:
        cleaned = f"{out}/clean" if model else f"{out}/in"
        if model:
            _clean(out, *model)
        _deduplicate(cleaned, out, int(bands), int(rows))
        return count

    measure(process)


def _cut(source: Path, folder: Path) -> int:
    """The corpus in files for the tasks; not timed."""
    folder.mkdir(parents=True)
    files = [(folder / f"{number}.jsonl").open("wb") for number in range(_FILES)]
    count = 0
    with source.open("rb") as lines:
        for count, line in enumerate(lines, 1):
            files[count % _FILES].write(line)
    for file in files:
        file.close()
    return count


def _run(stages: list[Any], out: str, name: str, tasks: int) -> None:
    from datatrove.executor import LocalPipelineExecutor

    workers = len(os.sched_getaffinity(0))
    LocalPipelineExecutor(
        stages, tasks=tasks, workers=min(workers, tasks), logging_dir=f"{out}/logs-{name}"
    ).run()


def filters(model: str) -> list[Any]:
    """Language, then the rules of Gopher, C4 and FineWeb."""
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
    )

    language = LanguageFilter(languages=["en"])
    language.model.MODEL_URL = model  # of the instance: the workers are other processes
    return [
        language,
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(),
    ]


def _clean(out: str, model: str) -> None:
    from datatrove.pipeline.formatters import FTFYFormatter
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    writer = JsonlWriter(f"{out}/clean", compression=None)
    stages = [JsonlReader(f"{out}/in"), FTFYFormatter(), *filters(model), writer]
    _run(stages, out, "clean", _FILES)


def _deduplicate(cleaned: str, out: str, bands: int, rows: int) -> None:
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import (
        MinhashConfig,
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
    )
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    config = MinhashConfig(num_buckets=bands, hashes_per_bucket=rows, n_grams=5)
    places = {name: f"{out}/{name}" for name in ("signatures", "buckets", "remove")}
    reader = JsonlReader(cleaned)
    signatures = MinhashDedupSignature(places["signatures"], config)
    _run([reader, signatures], out, "signatures", _FILES)
    buckets = MinhashDedupBuckets(places["signatures"], places["buckets"], config=config)
    _run([buckets], out, "buckets", bands)
    clusters = MinhashDedupCluster(places["buckets"], places["remove"], config=config)
    _run([clusters], out, "clusters", 1)
    writer = JsonlWriter(f"{out}/final", compression=None)
    _run([reader, MinhashDedupFilter(places["remove"]), writer], out, "final", _FILES)


if __name__ == "__main__":
    main()
