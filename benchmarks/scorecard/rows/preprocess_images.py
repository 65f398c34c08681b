"""From a folder of photographs to a set that can be trained on."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from beam_jobs.engine.processes import KEPT_MEMORY
from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail, rate_columns
from benchmarks.subjects.photo_kernels import QUALITY, SIDE

_COUNT, _SMALL_COUNT = 8400, 128
TFDS_PAGE = "https://www.tensorflow.org/datasets/beam_datasets"
# (name, whose, library in benchmarks.subjects.peer_builds, module of it, page of its documentation)
PEERS = (
    (
        *("MosaicML Streaming", "MosaicML Streaming", "streaming", "streaming"),
        "https://docs.mosaicml.com/projects/streaming/en/stable/preparing_datasets/parallel_dataset_conversion.html",
    ),
    (
        *("WebDataset", "WebDataset", "webdataset", "webdataset"),
        "https://github.com/webdataset/webdataset/blob/main/docs/creating.md",
    ),
    (
        *("LitData", "LitData", "litdata", "litdata"),
        "https://github.com/Lightning-AI/litData#speed-up-model-training",
    ),
    (
        *("LitData, checkpoints", "LitData", "litdata, checkpoints", "litdata"),
        "https://github.com/Lightning-AI/litData#speed-up-model-training",
    ),
    (
        *("Hugging Face datasets", "Hugging Face datasets", "datasets", "datasets"),
        "https://huggingface.co/docs/datasets/image_process",
    ),
)
IMAGE_OPTIONS = {"resize": f"shorter:{SIDE}", "quality": str(QUALITY)}

_TASK = """
Photographs in class folders (collages of 400 x 534 pixels, 28 kB each, all different) become JPEG
of quality 90 with a shorter side of 256, with their labels, in the form that each program trains
from. All decode completely, resize and encode, with a process or thread for each core, as their
documentation says. "kernels" are those of shardmill (simplejpeg, and "sharp", the default filter,
by OpenCV) in the hands of a peer; "pillow" is what the peer's own examples use, with Pillow's
default, bicubic. At this size "sharp" is 46.5 dB from Lanczos and bicubic 48.9 (decision 0032).
TFDS has the kernels; with "array" it encodes itself.

shardmill alone also hashes every file, finds duplicates, splits, shuffles globally, indexes, and
can be killed at any time; "bare kernels" is a process pool that stores nothing.
"""


def build_images(source: Path, out: Path, dedup: str, worktree: Path | None = None) -> Run:
    """Runs a build with the size and the quality of the bare kernels."""
    options = IMAGE_OPTIONS | {"dedup": dedup}
    return run("shardmill_build", "image", source, out, json.dumps(options), worktree=worktree)


def _subjects(bench: Bench) -> list[Subject]:
    photos = make_corpus(bench.work, _SMALL_COUNT if bench.is_small else _COUNT)
    out = bench.work / "out"
    ours = [
        Subject(name, OURS, functools.partial(build_images, photos, out, dedup))
        for name, dedup in (
            ("shardmill", "exact"),
            ("shardmill, --dedup near", "near"),
        )
    ]
    # The allocator settings of shardmill's workers, which spare page faults.
    bare = functools.partial(run, "bare_kernels", photos, variables=KEPT_MEMORY)
    limit = Subject("bare kernels", "", bare)
    builders = [
        Subject(
            f"TFDS on Beam, {style}",
            "TFDS",
            functools.partial(run, "tfds_beam", photos, out, "in_memory", style),
            follows=TFDS_PAGE,
        )
        for style in ("array", "encoded")
    ]
    peers = [
        Subject(
            f"{name}, {kernels}",
            whose,
            functools.partial(
                *(run, "peer_builds", library, kernels, photos, out), python=bench.python("readers")
            ),
            "readers",
            page,
        )
        for name, whose, library, _, page in PEERS
        for kernels in ("pillow", "kernels")
        if not name.endswith("checkpoints")  # for the row of kills
    ]
    return [*ours, limit, *builders, *peers]


PHOTOGRAPHS = Row(
    "photographs",
    "folder of photographs to a set",
    _TASK,
    (*rate_columns("images"), Column("start and job s", detail("whole_seconds"), "less", 1)),
    _subjects,
    behind="""
Nine tenths of the work is decoding, resizing and encoding, so what has shardmill's kernels is as
fast as a loop around them. As their own examples have it, with Pillow, all peers are behind.
shardmill takes half a millisecond more for an image, for hashes, statistics of pixels, the
listing and the spool, and a third of one to write every image a second time, shuffled. Threads in
place of processes were no faster, nor were workers that keep all of their memory.
""".strip(),
)
