"""Candidates, leaders and pairs: the whole of it."""

from __future__ import annotations

from contextlib import closing

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.images import candidates, near_duplicates
from beam_jobs.dedup.images.candidates import MAX_DISTANCE, find_candidates
from beam_jobs.dedup.images.hash_format import (
    HASHED,
    LUMA_BYTES,
    LUMA_SIDE,
    THUMBNAIL_BYTES,
    VIEWS,
    certainty,
    view_codes,
)
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.perceptual_hash import hash_luma
from beam_jobs.options import ImageOptions
from beam_jobs.staging.reordering import Partitions, RowFile
from benchmarks.table_sidecars import sidecars_of_looks
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


@pytest.fixture
def sidecars(tmp_path):
    """Makes the sidecars of images with these hashes and thumbnails."""

    return lambda hashes, thumbnails: sidecars_of_looks(hashes, thumbnails, tmp_path)


@pytest.fixture
def search(sidecars):
    def run(hashes, thumbnails, threshold=near_duplicates.DEFAULT_THRESHOLD, threads=1):
        return near_duplicates.near_duplicates(sidecars(hashes, thumbnails), threshold, threads)

    return run


@pytest.fixture
def candidates_of(tmp_path):
    """Finds the candidates among images with these hashes, in this order."""

    def run(hashes):
        rows = np.zeros(len(hashes), HASHED)
        rows["hash"] = hashes
        with (
            closing(RowFile(tmp_path / "images", HASHED)) as images,
            closing(Partitions(tmp_path / "pairs", candidates.CANDIDATE, 2)) as partitions,
        ):
            images.append(rows)
            blocks = list(find_candidates(images, partitions, 2, threads=1))
        return candidates.Candidates(*map(np.concatenate, zip(*blocks, strict=True)))

    return run


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
def test_copies_find_their_photograph(kind, photographs, looks, columns, search):
    generator = np.random.default_rng(11)
    hashes, thumbnails = columns([copied(pixels, kind, generator) for pixels in photographs])
    near = search(*(np.concatenate(pair) for pair in zip(looks, (hashes, thumbnails), strict=True)))
    right = near.pairs[:, 1] - near.pairs[:, 0] == len(photographs)
    assert right.sum() / len(photographs) >= (0.9 if kind == "crop 10" else 0.95)
    assert right.all()
    assert (near.similarity >= np.float32(near_duplicates.DEFAULT_THRESHOLD)).all()


def test_different_photographs_are_no_pairs(looks, search):
    assert len(search(*looks).pairs) == 0


def test_pairs_are_sorted_and_none_comes_twice(photographs, columns, search):
    copies = [jpeg(photographs[row % 5], 90 - row) for row in range(20)]
    near = search(*columns(copies))
    pairs = near.pairs.tolist()
    assert all(first < second for first, second in pairs)
    assert pairs == sorted(pairs)
    assert len({tuple(pair) for pair in pairs}) == len(pairs)
    np.testing.assert_array_equal(components(20, near.pairs), np.arange(20) % 5)


def check_permuted(search, seed):
    hashes, thumbnails = synthetic(400)
    expected = search(hashes, thumbnails, 0.7)
    assert len(expected.pairs) >= 38
    order = np.random.default_rng(seed).permutation(400)
    near = search(hashes[order], thumbnails[order], 0.7)
    renamed = np.sort(order[near.pairs], axis=1)
    by_name = np.lexsort((renamed[:, 1], renamed[:, 0]))
    np.testing.assert_array_equal(renamed[by_name], expected.pairs)
    np.testing.assert_array_equal(near.similarity[by_name], expected.similarity)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32 - 1))
def test_permuting_the_rows_permutes_the_pairs(search, seed):
    check_permuted(search, seed)


def test_it_is_so_too_where_buckets_are_crowded(search, monkeypatch):
    monkeypatch.setattr(candidates, "CROWD", 2)
    monkeypatch.setattr(candidates, "NEAREST", 3)
    monkeypatch.setattr(bounds, "COMPARED_ENTRIES", 64)
    for seed in range(4):
        check_permuted(search, seed)


def test_threads_blocks_and_ranges_change_nothing(search, monkeypatch):
    hashes, thumbnails = synthetic(1000)
    expected = search(hashes, thumbnails)
    monkeypatch.setattr(bounds, "PROBED_ROWS", 100)
    monkeypatch.setattr(bounds, "FETCHED_PAIRS", 7)
    monkeypatch.setattr(bounds, "TABLE_ENTRIES", 3000)
    monkeypatch.setattr(bounds, "LEAST_PARTITION_ROWS", 90)
    near = search(hashes, thumbnails, threads=3)
    np.testing.assert_array_equal(near.pairs, expected.pairs)
    np.testing.assert_array_equal(near.similarity, expected.similarity)


def test_candidates_are_what_comparing_all_with_all_finds(candidates_of):
    """All that banding promises: near codes that share a band, or all but weak bits of it."""
    hashes, _ = synthetic(600)
    likely = candidates_of(hashes)
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


def test_a_great_many_equal_images_are_linked_in_linear_time(looks, sidecars):
    crowd = sidecars(*(np.repeat(column[:1], 20_000, axis=0) for column in looks))
    near = near_duplicates.near_duplicates(crowd, 0.9, 1)
    assert near.pairs.tolist() == [[0, row] for row in range(1, 20_000)]
    assert sum(crowd.taken) <= 3 * 20_000


def test_equal_hashes_with_unlike_thumbnails_are_no_pairs(looks, sidecars):
    """The second look decides, whatever the hash says; and comparing stays linear."""
    hashes = np.repeat(looks[0][:1], 3000, axis=0)
    generator = np.random.default_rng(3)
    thumbnails = generator.integers(0, 256, (3000, THUMBNAIL_BYTES), np.uint8)
    thumbnails[2990:] = thumbnails[7] ^ generator.integers(0, 2, (10, THUMBNAIL_BYTES), np.uint8)
    crowd = sidecars(hashes, thumbnails)
    near = near_duplicates.near_duplicates(crowd, 0.9, 1)
    assert set(near.pairs.ravel().tolist()) <= {7, *range(2990, 3000)}
    assert sum(crowd.taken) <= 3000 * 2 * candidates.CROWD


def test_blank_images_are_pairs_only_if_their_thumbnails_are_equal(columns, search):
    colours = [(255, 255, 255), (255, 255, 255), (0, 0, 0), (76, 76, 76), (255, 0, 0)]
    blanks = [np.full((20 + row, 30, 3), colour, np.uint8) for row, colour in enumerate(colours)]
    noise = np.random.default_rng(3).integers(254, 256, (2, 40, 40, 3), np.uint8)
    near = search(*columns([*blanks, *noise]))
    assert near.pairs.tolist() == [[0, 1]]
    assert near.similarity.tolist() == [1.0]


def test_images_of_one_pixel_do_no_harm(columns, search):
    pixels = np.random.default_rng(3).integers(0, 256, (6, 1, 1, 3), np.uint8)
    assert len(search(*columns(list(pixels))).pairs) == 0


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_for_a_pair(count, looks, search):
    near = search(*(column[:count] for column in looks))
    assert near.pairs.shape == (0, 2)
    assert near.pairs.dtype == np.int64
    assert near.similarity.dtype == np.float32


def test_a_crowd_of_nearly_equal_codes_stays_linear(candidates_of):
    """5,000 images that differ in little: one bucket, of which each probe sees a part."""
    generator = np.random.default_rng(3)
    luma = np.indices((LUMA_SIDE, LUMA_SIDE)).sum(axis=0) * 4
    noisy = (luma + generator.integers(-4, 5, (5000, *luma.shape))).clip(0, 255).astype(np.uint8)
    likely = candidates_of(hash_luma(noisy))
    assert len(likely.parts) <= 5000 * candidates.NEAREST
    assert likely.views.max() < VIEWS
    roots = components(5000, np.stack([likely.parts, likely.wholes], axis=1))
    assert (roots == 0).mean() > 0.9


def test_only_what_is_needed_is_fetched(looks, sidecars):
    images = sidecars(*looks)
    near_duplicates.near_duplicates(images, 0.9, 1)
    assert sum(images.taken) < len(looks[0])


def test_only_included_images_are_compared(looks, sidecars):
    images = sidecars(*(np.repeat(column[:1], 6, axis=0) for column in looks))
    images.excluded = np.arange(6) == 3
    near = near_duplicates.near_duplicates(images.without(np.array([0, 4])), 0.9, 1)
    assert near.pairs.tolist() == [[1, 2], [1, 5]]


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(UsageError, match="--near-threshold is"):
        ImageOptions("source", "out", near_threshold=threshold)


@given(*[st.integers(0, 2**40)] * 2, st.integers(0, VIEWS - 1), st.integers(0, MAX_DISTANCE))
def test_a_candidate_has_any_rows(part, whole, distance, view):
    columns = (np.array([number]) for number in (part, whole, distance, view))
    unpacked = candidates.unpack(candidates.pack(*columns))
    assert [column.tolist() for column in unpacked] == [[part], [whole], [view]]
