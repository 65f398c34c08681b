"""Recall, precision and scale of near-duplicates: `python -m benchmarks.near_duplicates [CORPUS]`.

Copies of every image are planted, one kind after the other, then all kinds at once. A pair is
correct if both are copies of the same image. Scale is measured on synthetic images
(`synthetic_looks`). Results go to benchmarks/results/near_duplicates.json.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np

from beam_jobs.dedup.images.near_duplicates import DEFAULT_THRESHOLD, NearPairs, near_pairs
from beam_jobs.dedup.union_find import components
from beam_jobs.images.decode import DecodingOptions, Pixels, decode_image
from beam_jobs.images.perceptual_hash import PerceptualHash, perceive
from benchmarks.copies import COPIES, MAX_PIXELS, altered
from benchmarks.corpus import photographs
from benchmarks.measure import machine
from benchmarks.synthetic_looks import SIDE, make_looks

_HERE = Path(__file__).parent
_SEED = 7
_PACKAGES = ("numpy", "opencv-python-headless", "simplejpeg", "pillow")
_THRESHOLDS = (0.80, 0.84, 0.86, 0.88, 0.90, 0.92)
_TIMED = 50  # images

Looks = list[PerceptualHash]


def main() -> None:
    """Runs everything, prints it, writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", type=Path, help="a folder of photographs")
    parser.add_argument("--scale", type=int, nargs="*", default=[250_000, 1_000_000])
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    files = sorted(arguments.corpus.rglob("*.jpg")) if arguments.corpus else photographs()
    names = [f"{file.parent.name}/{file.name}" for file in files]
    images = [decode_image(file.read_bytes(), DecodingOptions(MAX_PIXELS)).pixels for file in files]
    originals = [perceive(pixels) for pixels in images]
    copies = _copies(images)
    results = {
        "command": "python -m benchmarks.near_duplicates CORPUS --scale "
        + " ".join(map(str, arguments.scale)),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "photographs": len(files),
        "threshold": DEFAULT_THRESHOLD,
        "perceive_milliseconds": _perceive_times(images),
        "originals_alone": _wrong(_pairs(originals), len(files), names),
        "kinds": {kind: _one_kind(originals, copies[kind]) for kind in COPIES},
        "all_kinds": _all_kinds(originals, copies, names),
        "scale": [_scale(arguments.work, images, count) for count in arguments.scale],
    }
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    print(text)
    file = _HERE / "results" / "near_duplicates.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def _copies(images: list[Pixels]) -> dict[str, Looks]:
    generator = np.random.default_rng(_SEED)
    return {
        kind: [perceive(altered(pixels, kind, generator)) for pixels in images] for kind in COPIES
    }


def _pairs(looks: Looks, threshold: float = DEFAULT_THRESHOLD) -> NearPairs:
    hashes = np.stack([np.frombuffer(look.perceptual_hash, np.uint8) for look in looks])
    thumbnails = np.stack([np.frombuffer(look.thumbnail, np.uint8) for look in looks])
    return near_pairs(hashes, lambda rows: thumbnails[rows], threshold, threads=2)


def _one_kind(originals: Looks, copies: Looks) -> dict[str, float]:
    """Recall on a corpus of the images and one copy of each."""
    count = len(originals)
    pairs = _pairs([*originals, *copies]).pairs
    right = pairs[:, 1] - pairs[:, 0] == count
    return {
        "recall": round(float(right.sum()) / count, 4),
        "precision": round(float(right.mean()), 4),
        "wrong_pairs": int((~right).sum()),
    }


def _all_kinds(
    originals: Looks, copies: dict[str, Looks], names: list[str]
) -> dict[str, dict[str, object]]:
    """Precision, and how many images are in one cluster with all of their copies."""
    count = len(originals)
    looks = [*originals, *itertools.chain.from_iterable(copies.values())]
    found: dict[str, dict[str, object]] = {}
    for threshold in _THRESHOLDS:
        near = _pairs(looks, threshold)
        roots = components(len(looks), near.pairs).reshape(-1, count)
        found[f"threshold {threshold:.2f}"] = {
            "images": len(looks),
            "photographs_with_all_copies": int(np.all(roots == roots[0], axis=0).sum()),
            "copies_with_their_photograph": round(float((roots[1:] == roots[0]).mean()), 4),
            **_wrong(near, count, names),
        }
    return found


def _wrong(near: NearPairs, count: int, names: list[str]) -> dict[str, object]:
    """The precision, and the pairs of images that are confused."""
    own = near.pairs % count
    wrong = own[:, 0] != own[:, 1]
    worst: dict[str, float] = {}
    for pair, similarity in zip(own[wrong].tolist(), near.similarity[wrong].tolist(), strict=True):
        name = " and ".join(names[row] for row in sorted(pair))
        worst[name] = max(worst.get(name, 0.0), round(similarity, 3))
    return {
        "pairs": len(own),
        "precision": round(1 - float(wrong.mean()), 5) if len(own) else 1.0,
        "wrong_pairs": int(wrong.sum()),
        "photographs_confused": worst,
    }


def _perceive_times(images: list[Pixels]) -> dict[str, float]:
    """Milliseconds for an image of this size, the best of five."""
    sizes = {"400 x 300": (400, 300), "own size": None, "4000 x 3000": (4000, 3000)}
    times = {}
    for name, size in sizes.items():
        few = images[:_TIMED] if size is None or size[0] < 1000 else images[:5]
        sized = [cv2.resize(one, size) if size else one for one in few]
        runs = []
        for _ in range(5):
            begun = time.perf_counter()
            for pixels in sized:
                perceive(pixels)
            runs.append((time.perf_counter() - begun) / len(sized))
        times[name] = round(min(runs) * 1000, 3)
    return times


def _scale(work: Path, images: list[Pixels], count: int) -> dict[str, object]:
    luma = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in images]
    small = [cv2.resize(one, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for one in luma]
    folder = make_looks(work / f"looks-{count}", np.stack(small), count)
    command = [sys.executable, "-m", "benchmarks.subjects.near_clusters", str(folder), "2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
