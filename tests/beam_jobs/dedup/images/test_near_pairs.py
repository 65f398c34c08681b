"""Candidates, leaders and pairs: the whole of it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.images import candidates, near_duplicates
from beam_jobs.dedup.images.candidates import MAX_DISTANCE, find_candidates
from beam_jobs.dedup.images.hash_format import (
    LUMA_BYTES,
    LUMA_SIDE,
    THUMBNAIL_BYTES,
    VIEWS,
    certainty,
    view_codes,
)
from beam_jobs.dedup.images.near_duplicates import near_pairs
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.perceptual_hash import hash_luma
from beam_jobs.options import ImageOptions
from shard_format import UsageError
from tests.fixtures.proofs import examples


def jpeg(pixels, quality=90):
    data = simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality)
    return decode_image(data, DecodingOptions(10**8)).pixels


def cropped(pixels, part, generator):
    height, width = pixels.shape[:2]
    rows, columns = round(part * height), round(part * width)
    top, left = generator.integers(rows + 1), generator.integers(columns + 1)
    return pixels[top : height - rows + top, left : width - columns + left]


def copied(pixels, kind, generator):
    height, width = pixels.shape[:2]
    if kind.startswith("crop"):
        return jpeg(cropped(pixels, float(kind[5:]) / 100, generator))
    if kind == "quality 50":
        return jpeg(pixels, 50)
    factor = 2 ** generator.uniform(-2, 1)
    size = (round(width * factor), round(height * factor))
    return jpeg(cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR))


def search(hashes, thumbnails, threshold=near_duplicates.DEFAULT_THRESHOLD, threads=1):
    return near_pairs(hashes, lambda rows: thumbnails[rows], threshold, threads)


def synthetic(count, seed=3):
    """Looks of random smooth images, the last tenth of which are noisy copies of the first."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (count, 8, 8), np.uint8)
    size = (LUMA_SIDE, LUMA_SIDE)
    luma = np.stack([cv2.resize(one, size, interpolation=cv2.INTER_CUBIC) for one in coarse])
    copies = count // 10
    noise = generator.integers(-3, 4, (copies, *size))
    luma[-copies:] = (luma[:copies] + noise).clip(0, 255)
    thumbnails = np.full((count, THUMBNAIL_BYTES), 128, np.uint8)
    thumbnails[:, :LUMA_BYTES] = luma.reshape(count, -1)
    return hash_luma(luma), thumbnails


KINDS = ["resize", "quality 50", "crop 3", "crop 5", "crop 10"]


@pytest.mark.parametrize("kind", KINDS)
def test_copies_find_their_photograph(kind, photographs, looks, columns):
    generator = np.random.default_rng(11)
    hashes, thumbnails = columns([copied(pixels, kind, generator) for pixels in photographs])
    near = search(*(np.concatenate(pair) for pair in zip(looks, (hashes, thumbnails), strict=True)))
    right = near.pairs[:, 1] - near.pairs[:, 0] == len(photographs)
    assert right.sum() / len(photographs) >= (0.9 if kind == "crop 10" else 0.95)
    assert right.all()
    assert (near.similarity >= np.float32(near_duplicates.DEFAULT_THRESHOLD)).all()


def test_different_photographs_are_no_pairs(looks):
    assert len(search(*looks).pairs) == 0


def test_pairs_are_sorted_and_none_comes_twice(photographs, columns):
    copies = [jpeg(photographs[row % 5], 90 - row) for row in range(20)]
    near = search(*columns(copies))
    pairs = near.pairs.tolist()
    assert all(first < second for first, second in pairs)
    assert pairs == sorted(pairs)
    assert len({tuple(pair) for pair in pairs}) == len(pairs)
    np.testing.assert_array_equal(components(20, near.pairs), np.arange(20) % 5)


@settings(max_examples=examples(15))
@given(st.integers(0, 2**32 - 1))
def test_permuting_the_rows_permutes_the_pairs(seed):
    hashes, thumbnails = synthetic(400)
    expected = search(hashes, thumbnails, 0.7)
    assert len(expected.pairs) >= 38
    order = np.random.default_rng(seed).permutation(400)
    near = search(hashes[order], thumbnails[order], 0.7)
    renamed = np.sort(order[near.pairs], axis=1)
    by_name = np.lexsort((renamed[:, 1], renamed[:, 0]))
    np.testing.assert_array_equal(renamed[by_name], expected.pairs)
    np.testing.assert_array_equal(near.similarity[by_name], expected.similarity)


def test_it_is_so_too_where_buckets_are_crowded(monkeypatch):
    monkeypatch.setattr(candidates, "CROWD", 2)
    monkeypatch.setattr(candidates, "NEAREST", 3)
    monkeypatch.setattr(bounds, "COMPARED_ENTRIES", 64)
    test_permuting_the_rows_permutes_the_pairs()


def test_threads_and_blocks_change_nothing(monkeypatch):
    hashes, thumbnails = synthetic(1000)
    expected = search(hashes, thumbnails)
    monkeypatch.setattr(bounds, "PROBED_ROWS", 100)
    monkeypatch.setattr(bounds, "FETCHED_PAIRS", 7)
    near = search(hashes, thumbnails, threads=3)
    np.testing.assert_array_equal(near.pairs, expected.pairs)
    np.testing.assert_array_equal(near.similarity, expected.similarity)


def test_candidates_are_what_comparing_all_with_all_finds():
    """All that banding promises: near codes that share a band, or all but weak bits of it."""
    hashes, _ = synthetic(600)
    likely = find_candidates(hashes)
    codes, planes = view_codes(hashes), certainty(hashes)
    differences = codes[:, np.newaxis, :1] ^ codes[np.newaxis]
    low, high = (np.bitwise_count(differences & plane[:, None, None]) for plane in planes.T)
    distances = (np.bitwise_count(differences) + low + 2 * high).astype(int)
    distances[np.arange(600), np.arange(600)] = 99
    near = {tuple(pair) for pair in np.argwhere(distances.min(axis=2) <= MAX_DISTANCE).tolist()}
    pairs = list(zip(likely.parts.tolist(), likely.wholes.tolist(), strict=True))
    assert set(pairs) <= near
    assert len(pairs) >= 0.95 * len(near) > 100
    views = distances[likely.parts, likely.wholes, likely.views]
    assert (views <= MAX_DISTANCE).all()


def counting(thumbnails, counts):
    def fetch(rows):
        counts.append(len(rows))
        return thumbnails[rows]

    return fetch


def test_a_great_many_equal_images_are_linked_in_linear_time(looks):
    hashes, thumbnails = (np.repeat(column[:1], 20_000, axis=0) for column in looks)
    counts = []
    near = near_pairs(hashes, counting(thumbnails, counts))
    assert near.pairs.tolist() == [[0, row] for row in range(1, 20_000)]
    assert sum(counts) <= 3 * 20_000


def test_equal_hashes_with_unlike_thumbnails_are_no_pairs(looks):
    """The second look decides, whatever the hash says; and comparing stays linear."""
    hashes = np.repeat(looks[0][:1], 3000, axis=0)
    generator = np.random.default_rng(3)
    thumbnails = generator.integers(0, 256, (3000, THUMBNAIL_BYTES), np.uint8)
    thumbnails[2990:] = thumbnails[7] ^ generator.integers(0, 2, (10, THUMBNAIL_BYTES), np.uint8)
    counts = []
    near = near_pairs(hashes, counting(thumbnails, counts))
    assert set(near.pairs.ravel().tolist()) <= {7, *range(2990, 3000)}
    assert sum(counts) <= 3000 * 2 * candidates.CROWD


def test_blank_images_are_pairs_only_if_their_thumbnails_are_equal(columns):
    colours = [(255, 255, 255), (255, 255, 255), (0, 0, 0), (76, 76, 76), (255, 0, 0)]
    blanks = [np.full((20 + row, 30, 3), colour, np.uint8) for row, colour in enumerate(colours)]
    noise = np.random.default_rng(3).integers(254, 256, (2, 40, 40, 3), np.uint8)
    near = search(*columns([*blanks, *noise]))
    assert near.pairs.tolist() == [[0, 1]]
    assert near.similarity.tolist() == [1.0]


def test_images_of_one_pixel_do_no_harm(columns):
    pixels = np.random.default_rng(3).integers(0, 256, (6, 1, 1, 3), np.uint8)
    assert len(search(*columns(list(pixels))).pairs) == 0


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_for_a_pair(count, looks):
    near = search(*(column[:count] for column in looks))
    assert near.pairs.shape == (0, 2)
    assert near.pairs.dtype == np.int64
    assert near.similarity.dtype == np.float32


def test_a_crowd_of_nearly_equal_codes_stays_linear():
    """5,000 images that differ in little: one bucket, of which each probe sees a part."""
    generator = np.random.default_rng(3)
    luma = np.indices((LUMA_SIDE, LUMA_SIDE)).sum(axis=0) * 4
    noisy = (luma + generator.integers(-4, 5, (5000, *luma.shape))).clip(0, 255).astype(np.uint8)
    likely = find_candidates(hash_luma(noisy))
    assert len(likely.parts) <= 5000 * candidates.NEAREST
    assert likely.views.max() < VIEWS
    roots = components(5000, np.stack([likely.parts, likely.wholes], axis=1))
    assert (roots == 0).mean() > 0.9


def test_only_what_is_needed_is_fetched(looks):
    counts = []
    near_pairs(looks[0], counting(looks[1], counts))
    assert sum(counts) < len(looks[0])


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(UsageError, match="--near-threshold is"):
        ImageOptions("source", "out", near_threshold=threshold)


@given(*[st.integers(0, candidates.MAX_ROWS - 1)] * 2, st.integers(0, 15), st.integers(0, 13))
def test_pairs_of_any_rows_fit_into_64_bits(part, whole, distance, view):
    columns = (np.array([number]) for number in (part, whole, distance, view))
    unpacked = candidates._unpack(candidates._pack(*columns))
    assert [column.tolist() for column in unpacked] == [[part], [whole], [view]]
