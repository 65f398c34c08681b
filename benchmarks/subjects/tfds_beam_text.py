"""The baseline: a TFDS Beam builder with the same cleaning by the same kernels, in batches."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow_datasets as tfds

from beam_jobs.engine.logs import quiet_beam
from benchmarks.measure import print_result
from benchmarks.subjects.bare_text_kernels import batch_of, options

_BATCH = 1000  # about the 4 MiB of shardmill's batches


class Clean(beam.DoFn):
    """Batches of lines in, (id, features) of every kept document out."""

    def __init__(self, clean: str, dedup: str) -> None:
        super().__init__()
        self._clean, self._dedup = clean, dedup

    def setup(self) -> None:
        """Loads the kernels."""
        from beam_jobs.record_types.text import TextRecords

        self._records = TextRecords(options("source", "out", self._clean, self._dedup))

    def process(self, lines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """See beam.DoFn."""
        import hashlib

        encoded = [line.encode() for line in lines]
        prepared = self._records.prepare_batch(batch_of(encoded))
        for row, text in zip(
            prepared.rows.tolist(), prepared.values["text"].to_pylist(), strict=True
        ):
            name = hashlib.blake2b(encoded[row], digest_size=16).hexdigest()
            yield name, {"id": name, "text": text}


class Documents(tfds.core.GeneratorBasedBuilder):
    """One JSON Lines file, as a Beam builder."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {"id": tfds.features.Text(), "text": tfds.features.Text()}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: object) -> dict[str, object]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> object:
        source, _, _, clean, dedup = sys.argv[1:]
        return (
            beam.io.ReadFromText(source)
            | beam.Distinct()  # exact duplicates, for which TFDS would stop
            | beam.BatchElements(min_batch_size=_BATCH, max_batch_size=_BATCH)
            | beam.ParDo(Clean(clean, dedup))
        )


def main() -> None:
    """Arguments: SOURCE OUT MODE CLEAN DEDUP."""
    source, out, mode, _, _ = sys.argv[1:]
    quiet_beam()
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    shutil.rmtree(out, ignore_errors=True)
    workers = len(os.sched_getaffinity(0))
    flags = [f"--direct_num_workers={workers}", f"--direct_running_mode={mode}"]
    config = tfds.download.DownloadConfig(
        beam_runner=FnApiRunner(), beam_options=PipelineOptions(flags)
    )
    builder = Documents(data_dir=out)
    begun = time.perf_counter()
    builder.download_and_prepare(download_config=config)
    seconds = time.perf_counter() - begun
    with Path(source).open("rb") as file:
        print_result(sum(1 for _ in file), seconds)


if __name__ == "__main__":
    main()
