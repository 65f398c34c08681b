"""A small share of what `python -m benchmarks.mutations` does with 10,000 files."""

from __future__ import annotations

import random

import numpy as np
import pytest

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.decode.base import REPAIRS

REASONS = {
    "animated",
    "corrupt",
    "decompression-bomb",
    "empty-file",
    "not-an-image",
    "too-many-pixels",
    "too-many-scans",
    "truncated",
    "unsupported-format",
    "unsupported-mode",
}


@pytest.fixture
def mutations(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository))  # benchmarks are not installed
    from benchmarks import damage, mutations

    return mutations, damage


@pytest.fixture
def formats(mutations, samples):
    return mutations[1].good_files(sorted(samples.rglob("*-*-*.jpg"))[:3])


@pytest.mark.parametrize("lenient", [False, True])
def test_damage_is_a_refusal_or_a_image(mutations, formats, lenient):
    draw = random.Random(11)
    options = DecodingOptions(2_000_000, lenient=lenient)
    kept = 0
    for _ in range(300):
        name, data = draw.choice(formats)
        kind = draw.choice(list(mutations[1].MUTATIONS))
        damaged = mutations[1].MUTATIONS[kind](draw, data, draw.choice(formats)[1])
        try:
            image = decode_image(damaged, options)
        except Rejection as refusal:
            assert refusal.reason in REASONS, (name, kind)
            assert refusal.detail and " at 0x" not in refusal.detail and refusal.stage != "filter"
        else:
            kept += 1
            assert image.pixels.dtype == np.uint8 and image.pixels.flags["C_CONTIGUOUS"]
            assert image.pixels.shape[2] == 3 and image.repairs <= set(REPAIRS)
    assert 60 < kept < 240


def test_undamaged_files_are_all_read(formats):
    for name, data in formats:
        image = decode_image(data, DecodingOptions(2_000_000))
        assert not image.repairs & {"damage", "exif", "profile"}, name


def test_a_build_of_damaged_files_is_accounted_for(mutations, samples, tmp_path):
    corpus = tmp_path / "corpus"
    good = mutations[0].good_images(samples)
    kinds = mutations[0].write_corpus(good, corpus, 200, seed=5)
    assert sum(kinds.values()) == 200 and len(kinds) == len(mutations[1].MUTATIONS)
    measures = mutations[0].build("images", corpus, tmp_path / "set")  # checks the ledger itself
    assert measures["kept"] and measures["quarantined"]
