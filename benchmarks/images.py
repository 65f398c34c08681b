"""Preprocessing of images: `python -m benchmarks.images [--without-peers]`.

shardmill compared with a loop of the same kernels that stores nothing, and with Beam builders of
TFDS. The corpus is collages, which have no duplicates.
"""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path

from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, parser, run, take_turns, write
from benchmarks.subjects.bare_kernels import QUALITY, SIDE


def build_images(source: Path, out: Path, dedup: str, worktree: Path | None = None) -> Run:
    """Runs a build with the size and the quality of the bare kernels."""
    options = {"resize": f"shorter:{SIDE}", "quality": str(QUALITY), "dedup": dedup}
    return run("shardmill_build", "image", source, out, json.dumps(options), worktree=worktree)


def main() -> None:
    """Takes the turns, prints a table, writes the results."""
    arguments = parser("images", __doc__)
    arguments.add_argument("--count", type=int, default=16_800, help="images of the corpus")
    arguments.add_argument("--without-peers", action="store_true", help="without TFDS")
    chosen = arguments.parse_args()
    photos, out = make_corpus(chosen.work, chosen.count), chosen.work / "out"
    subjects = {"bare kernels": functools.partial(run, "bare_kernels", photos)}
    for dedup in ("off", "exact", "near"):
        subjects[f"shardmill, --dedup {dedup}"] = functools.partial(
            build_images, photos, out, dedup
        )
    modes = () if chosen.without_peers else ("in_memory", "multi_processing")
    for mode, style in itertools.product(modes, ("array", "encoded")):
        subjects[f"TFDS Beam, {mode}, {style}"] = functools.partial(
            run, "tfds_beam", photos, out, mode, style
        )
    table = take_turns("images", subjects, chosen.turns)
    write("images", {"images": chosen.count, "subjects": table})


if __name__ == "__main__":
    main()
