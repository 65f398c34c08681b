"""The baseline: a TFDS Beam builder that does the same resize with the same kernels.

It runs on Beam's FnApiRunner in the mode given: "in_memory" (a thread per core, no gRPC) or
"multi_processing" (a process per core); "multi_threading" ends in a TypeError inside TFDS 4.9.10.
"array" gives TFDS the resized pixels and lets it encode them, as builders are usually written;
"encoded" gives it JPEG bytes, the fastest form of such a builder.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import cv2
import tensorflow_datasets as tfds

from beam_jobs.engine.logs import quiet_beam
from benchmarks.subjects.clock import measure
from benchmarks.subjects.output import prepare
from benchmarks.subjects.photo_kernels import encoded, resized


def example(path: str, style: str) -> tuple[str, dict[str, object]]:
    """Key and features of one image."""
    pixels = resized(path)
    image = io.BytesIO(encoded(pixels)) if style == "encoded" else pixels
    folder, name = path.split("/")[-2:]
    return f"{folder}/{name}", {
        "image": image,
        "label": folder,
        "id": f"{folder}/{name}",
    }


class Photos(tfds.core.GeneratorBasedBuilder):
    """Class folders, as a Beam builder."""

    VERSION = tfds.core.Version("1.0.0")
    SOURCE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    STYLE = sys.argv[-1]

    def _info(self) -> tfds.core.DatasetInfo:
        names = sorted(path.name for path in self.SOURCE.iterdir())
        features = {
            "image": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
            "label": tfds.features.ClassLabel(names=names),
            "id": tfds.features.Text(),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: object) -> dict[str, object]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> object:
        beam = tfds.core.lazy_imports.apache_beam
        files = [str(path) for path in sorted(self.SOURCE.rglob("*.jpg"))]
        return beam.Create(files) | beam.Reshuffle() | beam.Map(example, self.STYLE)


def main() -> None:
    """Arguments: SOURCE OUT MODE STYLE."""
    source, out, mode, _ = sys.argv[1:]
    quiet_beam()
    cv2.setNumThreads(1)
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    prepare(Path(out))
    workers = len(os.sched_getaffinity(0))
    flags = [f"--direct_num_workers={workers}", f"--direct_running_mode={mode}"]
    config = tfds.download.DownloadConfig(
        beam_runner=FnApiRunner(), beam_options=PipelineOptions(flags)
    )
    builder = Photos(data_dir=out)
    count = len(list(Path(source).rglob("*.jpg")))

    def build() -> int:
        builder.download_and_prepare(download_config=config)
        return int(builder.info.splits["train"].num_examples)

    measure(build)
    if builder.info.splits["train"].num_examples != count:
        raise SystemExit("the peer lost records, so its time means nothing")


if __name__ == "__main__":
    main()
