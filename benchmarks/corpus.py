"""The corpus of the image benchmarks: collages of photographs, all different."""

from __future__ import annotations

import functools
import itertools
import shutil
from pathlib import Path

import numpy as np
import simplejpeg

from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.encode import encode_jpeg

REPOSITORY = Path(__file__).parents[1]
# 560 photographs if the developers' corpora are next to the repository, else the 320 samples.
_DEVELOPERS = REPOSITORY.parent / "shared" / "corpora" / "clothing"
_SAMPLES = REPOSITORY / "samples" / "clothing"
_QUALITY = 75  # that of the photographs


@functools.cache
def photographs() -> list[Path]:
    """Returns the distinct photographs, sorted."""
    if _DEVELOPERS.is_dir():
        return sorted(_DEVELOPERS.rglob("*.jpg"))
    # Without the deliberate faults of the samples, at which other programs would stop.
    return [path for path in sorted(_SAMPLES.rglob("*-*-*-*-*.jpg")) if " " not in path.name]


def make_corpus(work: Path, count: int) -> Path:
    """Returns a corpus of `count` collages in class folders, made once and reused."""
    folder = work / f"collages-{count}"
    complete, sources = folder / "complete", photographs()
    if complete.exists():
        return folder / "photos"
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(count):
        source = sources[number % len(sources)]
        target = folder / "photos" / source.parent.name / f"{number:06d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_collage(source.read_bytes(), number))
    complete.touch()
    return folder / "photos"


def _collage(data: bytes, number: int) -> bytes:
    """Another image of the size of a photograph, of quarters of four photographs at full detail.

    A corpus of them takes as long to decode and to encode as one of photographs, and has no
    duplicates, exact or near.
    """
    generator = np.random.default_rng(number)
    height, width = simplejpeg.decode_jpeg_header(data)[:2]
    image = np.empty((height, width, 3), np.uint8)
    rows, columns = (0, height // 2, height), (0, width // 2, width)
    for place in itertools.product(range(2), range(2)):
        part = image[rows[place[0]] : rows[place[0] + 1], columns[place[1]] : columns[place[1] + 1]]
        other = _pixels(int(generator.integers(len(photographs()))))
        room = other.shape[0] - part.shape[0], other.shape[1] - part.shape[1]
        top, left = (int(generator.integers(0, max(0, side) + 1)) for side in room)
        window = other[top : top + part.shape[0], left : left + part.shape[1]]
        part[:] = 255
        part[: window.shape[0], : window.shape[1]] = window
    return encode_jpeg(image, _QUALITY)


@functools.cache
def _pixels(number: int) -> Pixels:
    pixels: Pixels = simplejpeg.decode_jpeg(photographs()[number].read_bytes())
    return pixels
