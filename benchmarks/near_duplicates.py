"""Near duplicates among images: `python -m benchmarks.near_duplicates [CORPUS]`.

Recall and precision: copies of every image are planted, one kind after the other, then all kinds at
once. A pair is correct if both are copies of the same image. Time and memory: on the hashes of
synthetic images (`synthetic_looks`).
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.images.near_duplicates import DEFAULT_THRESHOLD, near_duplicates
from beam_jobs.images.decode import DecodingOptions, Pixels, decode_image
from beam_jobs.images.perceptual_hash import PerceptualHash, perceive
from benchmarks.copies import COPIES, MAX_PIXELS, altered
from benchmarks.corpus import photographs
from benchmarks.measure import parser, run, take_turns, write
from benchmarks.synthetic_looks import SIDE, make_looks
from benchmarks.table_sidecars import sidecars_of_looks

_SEED = 7
_THREADS = 2


def main() -> None:
    """Finds the planted copies, takes the turns, writes the results."""
    arguments = parser("near_duplicates", __doc__)
    arguments.add_argument("corpus", nargs="?", type=Path, help="a folder of photographs")
    arguments.add_argument("--scale", type=int, nargs="*", default=[250_000, 1_000_000])
    chosen = arguments.parse_args()
    files = sorted(chosen.corpus.rglob("*.jpg")) if chosen.corpus else photographs()
    images = [decode_image(file.read_bytes(), DecodingOptions(MAX_PIXELS)).pixels for file in files]
    originals = [perceive(pixels) for pixels in images]
    generator = np.random.default_rng(_SEED)
    copies = {
        kind: [perceive(altered(pixels, kind, generator)) for pixels in images] for kind in COPIES
    }
    kinds = {kind: _found([*originals, *copies[kind]], len(files)) for kind in COPIES}
    kinds["all kinds"] = _found(
        [*originals, *itertools.chain.from_iterable(copies.values())], len(files)
    )
    for kind, shares in kinds.items():
        print(f"{kind:<32}{shares}")
    results = {"threshold": DEFAULT_THRESHOLD, "images": len(files), "kinds": kinds}
    subjects = {
        f"{count} images": functools.partial(
            run, "near_clusters", _looks(chosen.work, images, count), _THREADS
        )
        for count in chosen.scale
    }
    if subjects:
        results["scale"] = take_turns("clusters", subjects, chosen.turns)
    write("near_duplicates", results)


def _found(looks: Sequence[PerceptualHash], count: int) -> dict[str, float]:
    """Which planted copies are found.

    Args:
        looks: All images, then a copy of each, then another copy of each, and so on.
        count: Number of images that are no copies.
    """
    hashes = np.stack([np.frombuffer(look.perceptual_hash, np.uint8) for look in looks])
    thumbnails = np.stack([np.frombuffer(look.thumbnail, np.uint8) for look in looks])
    with tempfile.TemporaryDirectory() as folder:
        sidecars = sidecars_of_looks(hashes, thumbnails, Path(folder))
        pairs = near_duplicates(sidecars, DEFAULT_THRESHOLD, _THREADS).pairs
    wrong: npt.NDArray[np.bool_] = (pairs % count)[:, 0] != (pairs % count)[:, 1]
    roots = components(len(looks), pairs).reshape(-1, count)
    return {
        "recall": round(float((roots[1:] == roots[0]).mean()), 4),
        "pairs": len(pairs),
        "wrong_pairs": int(wrong.sum()),
    }


def _looks(work: Path, images: Sequence[Pixels], count: int) -> Path:
    luma = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in images]
    small = [cv2.resize(one, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for one in luma]
    return make_looks(work / f"looks-{count}", np.stack(small), count)


if __name__ == "__main__":
    main()
