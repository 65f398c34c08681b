"""HEIC with the extra, and the message without it."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode import DecodingOptions, decode_image, decode_unconverted, heif
from beam_jobs.options import ImageOptions
from beam_jobs.record_types.image import ImageRecords


@pytest.fixture
def file(repository):
    return lambda name: (repository / "tests/fixtures/images" / f"{name}.heic").read_bytes()


@pytest.fixture
def not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    heif.load_decoder.cache_clear()
    yield
    heif.load_decoder.cache_clear()


def decode(data, **options):
    return decode_image(data, DecodingOptions(**({"max_pixels": 10**6} | options)))


def drawn():
    """What was encoded, [48, 64, 3]."""
    pixels = np.zeros((48, 64, 3), int)
    pixels[:, :, 0], pixels[:, :, 1] = np.arange(64) * 4, np.arange(48)[:, np.newaxis] * 5
    pixels[:24, :32, 2] = 200
    return pixels


def test_a_file_is_decoded(file):
    image = decode(file("plain"))
    assert (image.format, image.width, image.height, image.repairs) == ("HEIC", 64, 48, set())
    off = abs(image.pixels - drawn())
    assert off.mean() < 2 and image.pixels.flags["C_CONTIGUOUS"]


def test_it_is_turned_once_and_its_profile_is_applied(file):
    decoded = decode_unconverted(file("turned"), DecodingOptions(10**6))
    assert decoded.to_srgb is not None and decoded.repairs >= {"colour"}
    # Orientation 6: the upper left corner of the encoder's image is the upper right one.
    assert decoded.pixels.shape == (64, 48, 3)
    assert abs(decoded.pixels - np.rot90(drawn(), -1)).mean() < 2


def test_transparency_is_composited(file):
    decoded = decode(file("alpha"), background=(255, 0, 0))
    assert "alpha" in decoded.repairs
    assert abs(decoded.pixels[:, :28].astype(int) - (255, 0, 0)).max() <= 3
    assert abs(decoded.pixels[:, 36:] - drawn()[:, 36:]).mean() < 3


def test_damage_is_refused(file):
    data = file("plain")
    for damaged in (data[:200], data[:-100], data[:24] + bytes(40), data[:16]):
        with pytest.raises(Rejection) as refused:
            decode(damaged)
        assert refused.value.reason in ("corrupt", "truncated"), refused.value
        assert " at 0x" not in refused.value.detail
    with pytest.raises(Rejection, match="too-many-pixels"):
        decode(data, max_pixels=64 * 47)


def test_avif_is_left_to_pillow():
    avif = b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf"
    assert not heif.is_heif(avif) and heif.is_heif(avif.replace(b"avif", b"heic"))
    assert not heif.is_heif(b"") and not heif.is_heif(b"\0\0\0\x1cftyp")


def test_without_the_extra_the_message_says_what_to_install(file, not_installed):
    with pytest.raises(Rejection, match=r"unsupported-format: .*pip install 'shardmill\[heic\]'"):
        decode(file("plain"))


def test_units_that_were_staged_without_the_extra_are_not_reused(monkeypatch):
    records = ImageRecords(ImageOptions(("in",), "out"))
    with_it = records.stage_options()
    monkeypatch.setattr(heif, "version", lambda: "")
    assert records.stage_options() != with_it


def test_a_folder_of_a_phone(build, repository, make_images, tmp_path):
    """Files are known by content, whatever their names are."""
    source = make_images(6)
    for number, name in enumerate(("plain.heic", "turned.jpg", "alpha")):
        origin = repository / "tests/fixtures/images" / f"{name.partition('.')[0]}.heic"
        shutil.copy(origin, source / "class0" / f"{number}-{name}")
    report = build(source, resize="none", num_shards=1)
    ledger = report.manifest.ledger
    quarantined = sorted((tmp_path / "set" / "quarantine").glob("*.parquet"))
    rows = [row for part in quarantined for row in pq.read_table(part).to_pylist()]
    assert (ledger.read, ledger.kept, ledger.quarantined) == (9, 9, 0), rows
