"""--quality keep: which JPEG files are stored as they are."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageCms

from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.images.encode import ENCODERS, decode_jpeg_strictly, encode_jpeg
from beam_jobs.images.jpeg_passthrough import needs_no_change, shrunk
from beam_jobs.images.resize import RESIZE_MODES, keeps_size, parse_resize, resize_image
from beam_jobs.options import ImageOptions
from beam_jobs.record_types.image import ImageRecords
from shard_format import id_hash
from tests.fixtures.sets import stored_records


def raw_record(record_id, data):
    return RawRecord(record_id, data, data)


def records(**options):
    return ImageRecords(ImageOptions(("src",), "out", **options))


def jpeg_of(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def saved(pixels, **options):
    return jpeg_of(Image.fromarray(pixels), **options)


def exif(orientation, order="<"):
    made = Image.Exif()
    made.endian = order
    made[0x010F], made[0x0112] = "Maker", orientation
    return made


def profile(name):
    """sRGB as Pillow makes it, or one with the primaries of another space."""
    made = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    if name == "sRGB":
        return made
    data = bytearray(made)
    at = data.index(b"XYZ ", 400)  # the first of the colorants: other light than sRGB has
    data[at + 8 : at + 12] = (0x9000).to_bytes(4, "big")
    return bytes(data)


def with_marker(data, marker, replacement):
    """The first segment's marker changed: 0xC0 is the start of frame of a baseline JPEG."""
    at = data.index(bytes([0xFF, marker]))
    return data[: at + 1] + bytes([replacement]) + data[at + 2 :]


def with_precision(data, bits):
    at = data.index(b"\xff\xc0") + 4
    return data[:at] + bytes([bits]) + data[at + 1 :]


def many_scans(data):
    """A progressive JPEG whose last scan is repeated."""
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    return data[:end] + data[last:end] * 120 + data[end:]


KEPT = {
    "plain": saved,
    "gray": lambda p: saved(p[:, :, 0]),
    "progressive": lambda p: saved(p, progressive=True),
    "full chroma": lambda p: saved(p, subsampling=0),
    "upright": lambda p: saved(p, exif=exif(1)),
    "upright, big-endian": lambda p: saved(p, exif=exif(1, ">")),
    "Exif without orientation": lambda p: saved(p, exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"),
    "sRGB": lambda p: saved(p, icc_profile=profile("sRGB")),
    "comment": lambda p: saved(p, comment=b"taken on a Sunday"),
    "restart markers": lambda p: saved(p, restart_marker_blocks=4),
    "bytes behind the end": lambda p: saved(p) + b"more",
}
CHANGED = {
    "turned": lambda p: saved(p, exif=exif(6)),
    "turned, big-endian": lambda p: saved(p, exif=exif(3, ">")),
    "broken Exif": lambda p: saved(p, exif=b"Exif\0\0II*\0\xff\xff\0\0"),
    "another profile": lambda p: saved(p, icc_profile=profile("other")),
    "broken profile": lambda p: saved(p, icc_profile=b"nonsense" * 20),
    "CMYK": lambda p: jpeg_of(Image.fromarray(p).convert("CMYK")),
    "RGB": lambda p: (
        simplejpeg.encode_jpeg(p, 90)[:2]
        + b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"
        + saved(p, subsampling=0)[20:]
    ),
    "arithmetic coding": lambda p: with_marker(saved(p), 0xC0, 0xC9),
    "12 bits": lambda p: with_precision(saved(p), 12),
    "120 scans": lambda p: many_scans(saved(p, progressive=True)),
    "cut off in the header": lambda p: saved(p)[:300],
    "PNG": lambda p: ENCODERS["png"](p, 0),
    "nothing": lambda p: b"",
}


@pytest.mark.parametrize("name", KEPT)
def test_what_needs_no_change(photograph, name):
    data = KEPT[name](photograph)
    assert needs_no_change(data) == (400, 533)
    prepared = records(quality="keep", resize="none").prepare(raw_record("a", data))
    assert prepared.values["image"] == data
    assert (prepared.statistics["width"], prepared.statistics["height"]) == (400, 533)


@pytest.mark.parametrize("name", CHANGED)
def test_what_needs_a_change(photograph, name):
    assert needs_no_change(CHANGED[name](photograph)) is None


def test_a_file_that_is_turned_is_encoded_anew(photograph):
    keep = records(quality="keep:80", resize="none")
    prepared = keep.prepare(raw_record("a", CHANGED["turned"](photograph)))
    source = decode_jpeg_strictly(CHANGED["turned"](photograph))
    assert prepared.values["image"] == encode_jpeg(np.ascontiguousarray(np.rot90(source, -1)), 80)
    assert (prepared.statistics["source_width"], prepared.statistics["width"]) == (400, 533)


@pytest.mark.parametrize(
    ("resize", "kept"),
    [
        ("none", True),
        ("shorter:400", True),
        ("shorter:500", True),  # smaller images are not enlarged
        ("shorter:256", False),
        ("fit:400x600", True),
        ("pad:400x600", False),
    ],
)
def test_a_size_that_changes_is_not_kept(photograph, resize, kept):
    data = saved(photograph)
    prepared = records(quality="keep", resize=resize).prepare(raw_record("a", data))
    assert (prepared.values["image"] == data) is kept


@pytest.mark.parametrize("enlarge", [False, True])
@pytest.mark.parametrize("mode", RESIZE_MODES)
def test_keeps_size_says_what_resize_does(mode, enlarge):
    text = {"shorter": "shorter:9", "none": "none"}.get(mode, f"{mode}:12x9")
    resize = parse_resize(text, enlarge)
    generator = np.random.default_rng(0)
    for width, height in generator.integers(7, 15, (200, 2)).tolist():
        image = generator.integers(0, 256, (height, width, 3), np.uint8)
        resized = resize_image(image, resize, 10**6)
        same = resized.shape == image.shape and bool((resized == image).all())
        assert keeps_size(width, height, resize) is same
    assert not keeps_size(70_000, 9, resize)


def test_too_many_pixels_are_refused_though_kept(photograph):
    with pytest.raises(Rejection, match="too-many-pixels"):
        records(quality="keep", resize="none", max_pixels=1000).prepare(
            raw_record("a", saved(photograph))
        )


def mutated(data, generator):
    """Cut off, a bit flipped, a stretch of zeros, or ten bytes changed."""
    mutant, way = bytearray(data), generator.randrange(4)
    if way == 0:
        return bytes(mutant[: generator.randrange(2, len(mutant))])
    if way == 1:
        mutant[generator.randrange(len(mutant))] ^= 1 << generator.randrange(8)
    elif way == 2:
        start = generator.randrange(len(mutant))
        mutant[start : start + 40] = bytes(len(mutant[start : start + 40]))
    else:
        for _ in range(10):
            mutant[generator.randrange(len(mutant))] = generator.randrange(256)
    return bytes(mutant)


@pytest.mark.parametrize("name", ["plain", "gray", "progressive", "full chroma", "restart markers"])
def test_an_eighth_finds_all_damage(photograph, name):
    """1,000 mutations: what the full strict decode refuses is refused at an eighth, and no more."""

    def refuses(decode, data):
        try:
            decode(data)
        except ValueError:
            return True
        return False

    generator, data = random.Random(name), KEPT[name](photograph[:200, :200])
    verdicts = []
    for _ in range(200):
        damaged = mutated(data, generator)
        verdicts.append((refuses(decode_jpeg_strictly, damaged), refuses(shrunk, damaged)))
    assert all(full == eighth for full, eighth in verdicts)
    assert 50 < sum(full for full, _ in verdicts) < 200


def test_an_eighth_is_an_eighth():
    for height, width in ((1, 1), (7, 8), (9, 65), (533, 400)):
        data = encode_jpeg(np.zeros((height, width, 3), np.uint8), 90)
        assert shrunk(data).shape == (-(-height // 8), -(-width // 8), 3)


def test_damage_is_refused_in_keep_mode(photograph):
    with pytest.raises(Rejection, match="truncated"):
        records(quality="keep", resize="none").prepare(raw_record("a", saved(photograph)[:-500]))


def test_what_decodes_alike_is_a_duplicate(photograph):
    """Other Huffman tables, other metadata: other bytes, and the same pixels."""
    keep = records(quality="keep", resize="none")
    assert records().confirm is None
    plain = saved(photograph)
    for other in (
        saved(photograph, optimize=True),
        saved(photograph, progressive=True),
        saved(photograph, exif=exif(1)),
    ):
        assert other != plain
        assert (
            keep.prepare(raw_record("a", other)).fingerprint
            == keep.prepare(raw_record("b", plain)).fingerprint
        )
        assert keep.confirm({"image": [other]}) == keep.confirm({"image": [plain]})


def test_equal_fingerprints_are_confirmed_or_not(photograph):
    """A detail that no eighth shows: the mean of its block stays."""
    gray = np.full((64, 64, 3), 128, np.uint8)
    detailed = gray.copy()
    detailed[8:16:2, 8:16] += 40
    detailed[9:16:2, 8:16] -= 40
    keep = records(quality="keep", resize="none")
    one, other = saved(gray), saved(detailed)
    assert (
        keep.prepare(raw_record("a", one)).fingerprint
        == keep.prepare(raw_record("b", other)).fingerprint
    )
    assert keep.confirm({"image": [one]}) != keep.confirm({"image": [other]})


def test_kept_and_encoded_images_have_fingerprints_of_one_kind(photograph):
    keep = records(quality="keep:90", resize="none")
    encoded = keep.prepare(raw_record("a", ENCODERS["png"](photograph, 0)))
    kept = keep.prepare(raw_record("b", encoded.values["image"]))
    assert kept.values["image"] == encoded.values["image"]
    assert kept.fingerprint == encoded.fingerprint


def test_a_set_of_kept_files(build, make_images, tmp_path):
    source = make_images(40)
    report = build(source, quality="keep", resize="none")
    assert report.manifest.config["quality"] == "keep:90"
    counted = 0
    for row, example in stored_records(tmp_path / "set", report.manifest):
        assert example["image"] == [(source / row["record_id"]).read_bytes()]
        expected = id_hash(row["record_id"]) % 8 == 0
        assert (row["pixel_count"] > 0) is (row["pixel_sum"] is not None) is expected
        counted += expected
    assert 0 < counted < 20
