"""Photographs of the samples as columns of hashes and thumbnails."""

from __future__ import annotations

import numpy as np
import pytest

from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.perceptual_hash import perceive


def _columns(make_images):
    """([n, HASH_BYTES], [n, THUMBNAIL_BYTES]) of images."""
    looks = [perceive(pixels) for pixels in make_images]
    hashes = np.stack([np.frombuffer(look.perceptual_hash, np.uint8) for look in looks])
    return hashes, np.stack([np.frombuffer(look.thumbnail, np.uint8) for look in looks])


@pytest.fixture(scope="session")
def photographs(samples):
    """60 of the sample photographs, no two of which show the same."""
    files = [file for file in sorted(samples.rglob("*-*-*-*-*.jpg")) if " " not in file.name]
    return [
        decode_image(file.read_bytes(), DecodingOptions(10**8)).pixels for file in files[::5][:60]
    ]


@pytest.fixture(scope="session")
def looks(photographs):
    return _columns(photographs)


@pytest.fixture(scope="session")
def columns():
    """Makes ([n, HASH_BYTES], [n, THUMBNAIL_BYTES]) of images."""
    return _columns
