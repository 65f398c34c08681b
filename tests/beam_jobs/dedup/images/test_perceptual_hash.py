"""The perceptual hash and the thumbnail of an image."""

from __future__ import annotations

import hashlib

import cv2
import numpy as np
import pytest

from beam_jobs.dedup.images.hash_format import (
    BAND_BITS,
    BAND_POSITIONS,
    BANDS,
    CODE_BITS,
    FREQUENCIES,
    HASH_BYTES,
    LUMA_BYTES,
    LUMA_SIDE,
    THUMBNAIL_BYTES,
    VIEWS,
    WEAK_BITS,
    WINDOWS,
    bit_flags,
    certainty,
    is_flat,
    view_codes,
    weak_bits,
)
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.perceptual_hash import _halved, hash_luma, perceive


def photograph(seed=1, height=300, width=400):
    """Smooth noise: like a photograph, it has most of its energy in low frequencies."""
    noise = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), np.uint8)
    return cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)


def hashed(pixels):
    return np.frombuffer(perceive(pixels).perceptual_hash, np.uint8)[np.newaxis]


def distance(left, right, view=0):
    return int(np.bitwise_count(view_codes(left)[0, 0] ^ view_codes(right)[0, view]))


# SHA-256 of hash and thumbnail. A change of them changes what is staged: raise the record type's
# version.
GOLDEN = {
    "dress/281902e9-43a3-4848-b9c7-c92eeb8a40a8.jpg": (
        "92010790756733033a4efa21dccfe33706939e7ce907510669fd7736d6e95bac"
    ),
    "pants/93ca234f-1229-4ee3-a05d-127959b2c0ba.jpg": (
        "1841a250b42e8cf8fbf7ba863bef695be5bb733dad308e40987466fae58b1f61"
    ),
    "t-shirt/13ef735c-ddb3-4d45-90e3-1cce9bf1da0d.jpg": (
        "487a4bf5f282941c18323f5d2d9ab0bf9890a6128a7ab793259e7f83147b0d2d"
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_are_the_same_on_every_machine(name, samples):
    look = perceive(decode_image((samples / name).read_bytes(), DecodingOptions(10**8)).pixels)
    assert hashlib.sha256(look.perceptual_hash + look.thumbnail).hexdigest() == GOLDEN[name]


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 5000), (5000, 1), (31, 33), (255, 256), (257, 511), (700, 20)]
)
def test_any_shape_gives_the_fixed_sizes(shape):
    pixels = np.random.default_rng(3).integers(0, 256, (*shape, 3), np.uint8)
    look = perceive(pixels)
    assert (len(look.perceptual_hash), len(look.thumbnail)) == (HASH_BYTES, THUMBNAIL_BYTES)
    assert is_flat(hashed(pixels))[0] == (shape == (1, 1))


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 0, 255)])
def test_a_blank_image_is_flat_and_keeps_its_colour(colour):
    pixels = np.full((50, 70, 3), colour, np.uint8)
    thumbnail = np.frombuffer(perceive(pixels).thumbnail, np.uint8)
    assert is_flat(hashed(pixels))[0]
    expected = cv2.cvtColor(pixels[:1, :1], cv2.COLOR_RGB2YCrCb)[0, 0, [0, 2, 1]].astype(int)
    kept = thumbnail[[0, LUMA_BYTES, THUMBNAIL_BYTES - 1]].astype(int)
    assert abs(kept - expected).max() <= 1


def test_noise_as_jpeg_leaves_it_is_still_flat():
    pixels = np.random.default_rng(3).integers(120, 123, (40, 40, 3), np.uint8)
    assert is_flat(hashed(pixels))[0]


def test_the_thumbnail_is_the_image_made_small():
    pixels = photograph(height=128, width=256)
    luma = np.frombuffer(perceive(pixels).thumbnail, np.uint8)[:LUMA_BYTES].astype(int)
    expected = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    expected = cv2.resize(expected, (LUMA_SIDE, LUMA_SIDE), interpolation=cv2.INTER_AREA)
    assert abs(luma.reshape(LUMA_SIDE, LUMA_SIDE) - expected).max() <= 2


def test_a_strided_image_gives_the_same_as_a_copy_of_it():
    pixels = photograph()[::2, 10:-10]
    assert perceive(pixels) == perceive(np.ascontiguousarray(pixels))


@pytest.mark.parametrize("height", [75, 150, 299, 600])
def test_the_hash_outlives_another_size(height):
    original = photograph()
    resized = cv2.resize(original, (height * 4 // 3, height), interpolation=cv2.INTER_AREA)
    assert distance(hashed(resized), hashed(original)) <= 3


@pytest.mark.parametrize("view", range(VIEWS))
def test_a_view_has_the_code_of_the_crop(view):
    original = photograph(height=480, width=640)
    top, bottom, left, right = (edge / 160 for edge in WINDOWS[view])
    crop = original[round(480 * top) : round(480 * (1 - bottom))]
    crop = crop[:, round(640 * left) : round(640 * (1 - right))]
    assert distance(hashed(crop), hashed(original), view) <= 2


def test_another_image_has_another_hash():
    assert distance(hashed(photograph(1)), hashed(photograph(2))) > 16


def test_bits_are_the_signs_of_the_dct():
    """Against OpenCV's floating-point DCT, where a coefficient is clearly above the threshold."""
    luma = cv2.cvtColor(photograph(5), cv2.COLOR_RGB2GRAY)
    luma = cv2.resize(luma, (LUMA_SIDE, LUMA_SIDE), interpolation=cv2.INTER_AREA)
    spectrum = cv2.dct(luma.astype(np.float64))
    values = np.array([spectrum[pair] for pair in FREQUENCIES])
    code = view_codes(hash_luma(luma[np.newaxis]))[0, 0]
    bits = (code & bit_flags(np.arange(CODE_BITS))) != 0
    threshold = np.sqrt((values**2).sum()) / 64
    clear = abs(values - threshold) > threshold / 4
    assert clear.sum() > 48
    np.testing.assert_array_equal(bits[clear], (values > threshold)[clear])


def test_many_at_once_give_the_same_as_one_by_one():
    luma = np.stack(
        [np.frombuffer(perceive(photograph(seed)).thumbnail, np.uint8) for seed in range(9)]
    )[:, :LUMA_BYTES].reshape(-1, LUMA_SIDE, LUMA_SIDE)
    one_by_one = [hash_luma(luma[row : row + 1]) for row in range(9)]
    np.testing.assert_array_equal(hash_luma(luma), np.concatenate(one_by_one))


def test_the_weak_bits_are_those_of_least_certainty():
    hashes = hash_luma(np.random.default_rng(2).integers(0, 256, (20, 32, 32), np.uint8))
    low, high = certainty(hashes).T
    assert (np.bitwise_count(low) == CODE_BITS // 2).all()
    assert (np.bitwise_count(high) == CODE_BITS // 2).all()
    for band in range(BANDS):
        weak = weak_bits(hashes, band)
        assert weak.shape == (20, WEAK_BITS)
        assert np.isin(weak, BAND_POSITIONS[band]).all()
        flags = bit_flags(weak)
        levels = ((flags & low[:, np.newaxis]) != 0) + 2 * ((flags & high[:, np.newaxis]) != 0)
        assert (np.diff(levels.astype(int), axis=1) >= 0).all()


def test_the_layout_is_what_it_says():
    assert len(set(WINDOWS)) == VIEWS == 14
    assert WINDOWS[0] == (0, 0, 0, 0)
    assert len(set(FREQUENCIES)) == CODE_BITS
    for positions in BAND_POSITIONS:
        assert len(set(positions.tolist())) == BAND_BITS


@pytest.mark.parametrize("size", [(2, 6), (301, 255), (300, 200), (199, 402), (258, 256)])
@pytest.mark.parametrize(("down", "across"), [(1, 2), (2, 1), (2, 2)])
def test_halving_is_that_of_opencv(size, down, across):
    """To the bit: rounded halves to even for one side, up for both."""
    height, width = size[0] // 2 * 2, size[1] // 2 * 2
    pixels = np.random.default_rng(5).integers(0, 256, (*size, 3), np.uint8)[:height, :width]
    target = width // across, height // down
    expected = cv2.resize(pixels, target, interpolation=cv2.INTER_AREA)
    np.testing.assert_array_equal(_halved(pixels, down, across), expected)
