"""--encoding and --quality: the bytes that are stored."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.images.encode import ENCODERS, decode_jpeg_strictly, encode_jpeg
from beam_jobs.options import ImageOptions
from beam_jobs.record_types.image import ImageRecords
from shard_format import LABELS_FIELD, UsageError, verify
from tests.fixtures.sets import stored_records


def records(**options):
    return ImageRecords(ImageOptions(("src",), "out", **options))


@pytest.mark.parametrize(
    ("encoding", "magic", "least", "most"),
    [
        ("jpeg", b"\xff\xd8\xff", 0.1, 4),
        ("png", b"\x89PNG", 0, 0),
        ("webp", b"RIFF", 0.1, 5),
        ("raw", b"", 0, 0),
    ],
)
def test_every_encoder_gives_the_image_back(photograph, encoding, magic, least, most):
    data = ENCODERS[encoding](photograph, 90)
    assert data.startswith(magic) and data == ENCODERS[encoding](photograph.copy(), 90)
    if encoding == "raw":
        pixels = np.frombuffer(data, np.uint8).reshape(photograph.shape)
    else:
        pixels = np.asarray(Image.open(io.BytesIO(data)))
    assert least <= abs(pixels.astype(int) - photograph).mean() <= most


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (33, 31)])
def test_every_encoder_takes_every_shape(encoding, size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    data = ENCODERS[encoding](pixels, 50)
    if encoding == "raw":
        assert data == pixels.tobytes()
    else:
        assert Image.open(io.BytesIO(data)).size == (size[1], size[0])


@pytest.mark.parametrize("encoding", ["jpeg", "webp"])
def test_quality_counts(photograph, encoding):
    assert len(ENCODERS[encoding](photograph, 40)) < len(ENCODERS[encoding](photograph, 95)) / 2


def test_a_webp_has_a_longest_side():
    with pytest.raises(Rejection, match=r"too-large-resized.*16384 x 1 pixels.*16383"):
        ENCODERS["webp"](np.zeros((1, 16384, 3), np.uint8), 90)


@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw"])
def test_a_set_of_every_encoding(build, make_images, tmp_path, encoding):
    source = make_images(9)
    report = build(source, encoding=encoding, resize="none")
    schema = report.manifest.schema
    assert schema["image"].encoding == encoding
    assert report.manifest.config["encoding"] == encoding
    assert verify(tmp_path / "set")[1] == []
    names = [feature.name for feature in schema.features]
    assert names == ["id", "image", *(["height", "width"] if encoding == "raw" else []), "label"]
    for row, example in stored_records(tmp_path / "set", report.manifest):
        source_pixels = decode_jpeg_strictly((source / row["record_id"]).read_bytes())
        (image,) = example["image"]
        assert image == ENCODERS[encoding](source_pixels, 90)
        size = b""
        if encoding == "raw":
            assert (example["height"], example["width"]) == ([24], [30])
            size = np.array([30, 24], "<i8").tobytes()
        assert row["fingerprint"] == hashlib.sha256(size + image).digest()[:16]


def test_raw_images_of_other_shapes_are_no_duplicates():
    raw = records(encoding="raw", resize="none")
    wide, tall = (encode_jpeg(np.zeros(size, np.uint8), 90) for size in ((8, 16, 3), (16, 8, 3)))
    assert (
        raw.prepare(RawRecord("a", wide, wide)).fingerprint
        != raw.prepare(RawRecord("a", tall, tall)).fingerprint
    )


@pytest.mark.parametrize("one", ["jpeg", "png", "webp", "raw"])
def test_options_that_change_bytes_change_units(one):
    def units(**options):
        return records(**options).stage_options()

    others = [name for name in ENCODERS if name != one]
    assert all(units(encoding=one) != units(encoding=other) for other in others)
    assert units(quality="keep:90") != units(quality="90") != units(quality="91")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quality": "keep", "encoding": "png"}, "needs jpeg"),
        ({"quality": "keep:0"}, r"\[1, 100\]"),
        ({"encoding": "gif"}, "Choices: jpeg, png, webp, raw"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(UsageError, match=message):
        ImageOptions(("src",), "out", **options)


def test_the_label_follows_the_options():
    single, multi, none = records(), records(multi_label=True), records(no_labels=True)
    assert single.schema["label"].shape == () and single.late_columns == ()
    assert multi.schema["label"].shape == (-1,) and multi.late_columns == (LABELS_FIELD,)
    assert [feature.name for feature in none.schema.features] == ["id", "image"]
