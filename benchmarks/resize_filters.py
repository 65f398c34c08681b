"""Filters of --resize-filter: `python -m benchmarks.resize_filters [SRC]`.

For every filter: CPU milliseconds of one core per image, and the distance from Lanczos at full size
in decibels (PSNR), as a mean and the 5th percentile over the images. SRC holds JPEG files; without
it, the photographs of `corpus`. Results go to benchmarks/results/resize_filters.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg

from beam_jobs.images.resample import FILTERS, Pixels
from benchmarks.corpus import photographs
from benchmarks.measure import machine

_HERE = Path(__file__).parent
_FACTORS = (1.1, 1.3, 1.5, 1.8, 2.3, 3.0, 4.0, 4.9, 6.0, 8.0)
_REFERENCE = "lanczos"
_TURNS = 3
# What the filters replace or were compared with.
_OTHERS = {
    "cv2 linear exact": lambda image, width, height: cv2.resize(
        image, (width, height), interpolation=cv2.INTER_LINEAR_EXACT
    ),
}


def main() -> None:
    """Measures all factors, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resize_filters")
    parser.add_argument("source", type=Path, nargs="?", metavar="SRC")
    parser.add_argument("--images", type=int, default=80, help="how many, spread over the files")
    arguments = parser.parse_args()
    files = sorted(arguments.source.rglob("*.jpg")) if arguments.source else photographs()
    files = files[:: max(1, len(files) // arguments.images)]
    images = [simplejpeg.decode_jpeg(file.read_bytes(), "RGB") for file in files]
    results: dict[str, Any] = {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "command": "python -m benchmarks.resize_filters",
        "images": len(images),
        "factors": {},
    }
    for factor in _FACTORS:
        results["factors"][factor] = found = _measure(images, factor)
        print(f"shrunk {factor:g} times")
        for name, one in found.items():
            print(f"  {name:<18}{one['ms']:>7.2f} ms{one['mean_db']:>8.2f}{one['p5_db']:>8.2f} dB")
    file = _HERE / "results" / "resize_filters.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _measure(images: list[Pixels], factor: float) -> dict[str, dict[str, float]]:
    """By filter; the filters take turns at every image, and the least time of each counts."""
    filters = {**FILTERS, **_OTHERS}
    seconds, near = dict.fromkeys(filters, 0.0), {name: [] for name in filters}
    for image in images:
        height, width = (max(1, round(side / factor)) for side in image.shape[:2])
        expected = FILTERS[_REFERENCE](image, width, height).astype(float)
        least = dict.fromkeys(filters, float("inf"))
        for _ in range(_TURNS):
            for name, shrink in filters.items():
                begun = time.thread_time()
                found = shrink(image, width, height)
                least[name] = min(least[name], time.thread_time() - begun)
                error = ((found - expected) ** 2).mean()
                near[name].append(10 * np.log10(255**2 / max(error, 1e-9)))
        for name in filters:
            seconds[name] += least[name]
    return {
        name: {
            "ms": round(seconds[name] / len(images) * 1e3, 3),
            "mean_db": round(float(np.mean(near[name])), 2),
            "p5_db": round(float(np.percentile(near[name], 5)), 2),
        }
        for name in filters
    }


if __name__ == "__main__":
    main()
