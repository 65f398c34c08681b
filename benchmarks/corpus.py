"""The corpus of a benchmark: real photographs, repeated under other names."""

from __future__ import annotations

import functools
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.encode import encode_jpeg

REPOSITORY = Path(__file__).parents[1]
# 560 photographs if the developers' corpora are next to the repository, else the 320 samples.
_DEVELOPERS = REPOSITORY.parent / "shared" / "corpora" / "clothing"
_LARGE, _LARGE_QUALITY = (600, 480), 93
_SAMPLES = REPOSITORY / "samples" / "clothing"
_QUALITY = 75  # of the photographs


@functools.cache
def photographs() -> list[Path]:
    """The distinct photographs, sorted."""
    if _DEVELOPERS.is_dir():
        return sorted(_DEVELOPERS.rglob("*.jpg"))
    # Without the deliberate faults of the samples, at which other programs would stop.
    return [path for path in sorted(_SAMPLES.rglob("*-*-*-*-*.jpg")) if " " not in path.name]


def make_large_photographs(folder: Path, count: int) -> Path:
    """`count` JPEG of 600 x 480 pixels and about 110 kB, all different, in ten class folders.

    They are photographs enlarged, with noise; made once and reused.
    """
    done = folder / "complete"
    if done.exists() and done.read_text() == str(count):
        return folder / "photos"
    shutil.rmtree(folder, ignore_errors=True)
    generator, (height, width) = np.random.default_rng(0), _LARGE
    noise = generator.normal(0, 9, (height + 100, width + 80, 3)).astype(np.float32)
    pixels = [cv2.imread(str(path))[:, :, ::-1] for path in photographs()[:200]]
    large = [
        cv2.resize(image, noise.shape[1::-1], interpolation=cv2.INTER_CUBIC) for image in pixels
    ]
    for number in range(count):
        top, left = generator.integers(0, 60, 2)
        moved = np.roll(noise, generator.integers(0, 400, 2), (0, 1))
        image = np.clip(large[number % len(large)] + moved, 0, 255).astype(np.uint8)
        cut = np.ascontiguousarray(image[top : top + height, left : left + width])
        path = folder / "photos" / f"class-{number % 10}" / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_jpeg(cut, _LARGE_QUALITY))
    done.write_text(str(count))
    return folder / "photos"


def collage(data: bytes, number: int) -> bytes:
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


def make_corpus(
    folder: Path, count: int, change: Callable[[bytes, int], bytes] | None = None
) -> Path:
    """A corpus of `count` real files in class folders, created once and reused.

    Args:
        folder: Of this corpus.
        count: Of files.
        change: From the bytes and the number of a file to what is written.
    """
    done = folder / "complete"
    if done.exists() and done.read_text() == str(count):
        return folder / "photos"
    shutil.rmtree(folder, ignore_errors=True)
    found = photographs()
    for number in range(count):
        source = found[number % len(found)]
        target = folder / "photos" / source.parent.name / f"{number:06d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        if change is None:
            shutil.copyfile(source, target)
        else:
            target.write_bytes(change(source.read_bytes(), number))
    done.write_text(str(count))
    return folder / "photos"
