"""img2dataset: a list of URLs to WebDataset shards of resized images, as its README has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from img2dataset import download

from benchmarks.subjects.clock import measure
from benchmarks.subjects.output import prepare


def main() -> None:
    """Arguments: LIST OUT SIDE QUALITY PROCESSES THREADS."""
    source, out, side, quality, processes, threads = sys.argv[1:]
    prepare(Path(out))
    details: dict[str, int] = {}

    def fetch() -> int:
        download(
            url_list=source,
            input_format="parquet",
            url_col="url",
            output_folder=out,
            output_format="webdataset",
            image_size=int(side),
            resize_mode="keep_ratio",
            resize_only_if_bigger=True,
            encode_quality=int(quality),
            processes_count=int(processes),
            thread_count=int(threads),
            number_sample_per_shard=1000,
            retries=2,
            enable_wandb=False,
        )
        stats = [json.loads(path.read_text()) for path in Path(out).glob("*_stats.json")]
        details["kept"] = sum(one["successes"] for one in stats)
        return sum(one["count"] for one in stats)

    measure(fetch, details)


if __name__ == "__main__":
    main()
