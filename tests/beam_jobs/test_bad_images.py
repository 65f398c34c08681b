"""The pack of bad images: our verdict on every file, next to the one that Pillow gave.

EXPECTED.tsv holds Pillow's verdict, made when the pack was put together. PngSuite and the
landscapes have pairs that must come out alike, which is a check that depends on no decoder.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.decode import DecodingOptions, decode_image

MAX_PIXELS = 60_000_000  # the bound under which EXPECTED.tsv was made

# Where we refuse what Pillow kept, and why we are right.
STRICTER = {
    "exif-orientation/pillow/broken_data_stream.png": "corrupt",  # an IDAT checksum is wrong
    "odd-modes/pngsuite/xcsn0g01.png": "corrupt",  # made by PngSuite to be refused: likewise
    "exif-orientation/pillow/truncated_end_chunk.png": "truncated",  # ends inside IEND
}
# What each kind of complaint by Pillow is to us; the first that matches counts.
REASONS = (
    ("not decoded (>60 MP)", {"too-many-pixels"}),
    ("DecompressionBombError", {"too-many-pixels"}),
    ("Decompressed data too large", {"decompression-bomb"}),
    ("OSError: Unsupported BMP", {"unsupported-format"}),
    ("OSError: image file is truncated", {"truncated"}),
    ("OSError", {"corrupt"}),
    ("ValueError", {"corrupt"}),
    ("UnidentifiedImageError", {"corrupt", "not-an-image", "truncated"}),
)
# With --lenient these are kept in addition.
LENIENT = {
    *STRICTER,
    "broken/pillow/shortfile.bmp",
    "broken/pillow/truncated_image.png",
    "broken/pillow/truncated_jpeg.jpg",
    "broken/pillow/ultrahdr.jpg",
    "broken/pillow/unknown_compression_method.png",  # the checksum of its colour profile is wrong
}
# Where Pillow's own conversion to RGB is wrong, and ours is tested in test_repairs.py.
PILLOW_IS_WRONG = {
    "tbbn0g04.png",  # forgets the transparent level of 4-bit gray
    "tbwn0g16.png",  # clips 16-bit gray at 255
}


@pytest.fixture(scope="module")
def pack(corpora) -> Path:
    folder = corpora / "bad-images"
    if not folder.is_dir():
        pytest.skip("needs the pack of bad pictures, which is not part of the repository")
    return folder


@pytest.fixture(scope="module")
def expected(pack) -> dict[str, dict[str, str]]:
    with (pack / "EXPECTED.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {row["path"]: row for row in rows}


def decode(path, **options):
    return decode_image(path.read_bytes(), DecodingOptions(MAX_PIXELS, **options))


def verdict(path, **options):
    try:
        return "kept", decode(path, **options)
    except Rejection as refusal:
        assert refusal.stage != FILTER and refusal.detail
        return refusal.reason, None


def test_every_file_has_the_expected_verdict(pack, expected):
    wrong = []
    for name, row in expected.items():
        ours, one_image = verdict(pack / name)
        if row["verdict_of_Pillow"] == "ok":
            wanted = {STRICTER.get(name, "kept")}
        else:
            wanted = next(ours for start, ours in REASONS if start in row["verdict_of_Pillow"])
        if ours not in wanted:
            wrong.append((name, row["verdict_of_Pillow"], ours))
        if one_image is not None:
            size = one_image.width, one_image.height
            if size != (int(row["width"]), int(row["height"])) or one_image.format != row["format"]:
                wrong.append((name, row["format"], size))
            turned = row["exif_orientation"] in tuple("2345678") and "xmp_tags" not in name
            if turned != ("orientation" in one_image.repairs):
                wrong.append((name, row["exif_orientation"], one_image.repairs))
            animated = row["frames"].isdigit() and int(row["frames"]) > 1
            if animated != ("frames" in one_image.repairs):
                wrong.append((name, row["frames"], one_image.repairs))
    assert wrong == []
    assert len(expected) == 292


def test_what_lenient_keeps_in_addition(pack, expected):
    kept = {name for name in expected if verdict(pack / name, lenient=True)[0] == "kept"}
    strict = {name for name in expected if verdict(pack / name)[0] == "kept"}
    assert kept - strict == LENIENT
    assert strict <= kept
    for name in LENIENT:
        assert "damage" in decode(pack / name, lenient=True).repairs


def test_animated_files_can_be_refused(pack, expected):
    for name, row in expected.items():
        if row["verdict_of_Pillow"] == "ok" and row["frames"].isdigit() and int(row["frames"]) > 1:
            assert verdict(pack / name, animated="refuse")[0] == "animated", name


def pairs(folder):
    """PngSuite's files that show one image in several ways: (one, other)."""
    files = {path.name for path in folder.glob("*.png")}
    for name in sorted(files):
        if name.startswith("basi"):  # interlaced
            yield name, name.replace("basi", "basn")
        if name[0] == "s" and name[3] == "i":
            yield name, name[:3] + "n" + name[4:]
        if name[:2] == "oi":  # the data cut into several chunks
            yield name, "oi1" + name[3:]
        if name[:3] in ("z03", "z06", "z09"):  # other levels of compression
            yield name, "z00" + name[3:]


def test_pairs_of_pngsuite_are_alike(pack):
    folder = pack / "odd-modes" / "pngsuite"
    couples = list(pairs(folder))
    assert len(couples) > 40
    for one, other in couples:
        np.testing.assert_array_equal(
            decode(folder / one).pixels, decode(folder / other).pixels, f"{one} {other}"
        )


def by_pillow(data):
    image = Image.open(io.BytesIO(data))
    if image.mode == "I;16":
        gray = (np.asarray(image) >> 8).astype(np.uint8)
        return np.repeat(gray[:, :, np.newaxis], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


def test_pngsuite_as_pillow_has_it(pack, expected):
    folder = pack / "odd-modes" / "pngsuite"
    for path in sorted(folder.glob("*.png")):
        if f"odd-modes/pngsuite/{path.name}" in STRICTER or path.name in PILLOW_IS_WRONG:
            continue
        difference = decode(path).pixels.astype(int) - by_pillow(path.read_bytes())
        assert abs(difference).max() <= 1, path.name  # the sum of rounding alpha in two ways


def test_all_landscapes_are_upright(pack):
    folder = pack / "exif-orientation" / "recurser"
    reference = decode(folder / "Landscape_1.jpg").pixels.astype(int)
    assert reference.shape == (1200, 1800, 3)
    for number in range(9):
        pixels = decode(folder / f"Landscape_{number}.jpg").pixels
        # Each was compressed on its own; one that lies on its side differs by 50 and more.
        assert abs(pixels - reference).mean() < 5, number


def test_lab_looks_like_its_source(pack):
    """hopper.Lab.tif is the photograph of the CMYK and JPEG files; its mean colour is known."""
    pixels = decode(pack / "odd-modes" / "pillow" / "hopper.Lab.tif").pixels
    upright = decode(pack / "exif-orientation" / "pillow" / "hopper_orientation_2.jpg").pixels
    assert abs(pixels.astype(int) - upright).mean() < 8
