"""Images that are smaller than --resize asks keep their size, and the ledger counts them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from beam_jobs.quarantine import replay_options
from shard_format import naming, open_index

ORIENTATION = 0x0112


@pytest.fixture
def corpus(tmp_path):
    """Six images of three classes: three are smaller than 40 x 30, and one of them is there twice.

    One of the others is 60 x 20, and is 20 x 60 once it is turned upright.
    """
    generator = np.random.default_rng(3)
    sizes = {"a/small": (28, 28), "b/small": (39, 29), "a/wide": (200, 20), "c/large": (90, 80)}
    for name, (width, height) in sizes.items():
        write(tmp_path / "corpus" / f"{name}.jpg", generator, width, height)
    write(tmp_path / "corpus" / "c" / "turned.jpg", generator, 60, 20, orientation=6)
    data = (tmp_path / "corpus" / "a" / "small.jpg").read_bytes()
    (tmp_path / "corpus" / "a" / "small again.jpg").write_bytes(data)
    return tmp_path / "corpus"


def write(path, generator, width, height, orientation=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    pixels = generator.integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path, quality=95, exif=exif)


def sizes_of(out):
    """Width and height of the stored images by record id."""
    sizes = {}
    for split in ("train", "test"):
        rows = open_index(out / naming.index_file(split)).select(["record_id", "width", "height"])
        sizes |= {row["record_id"]: (row["width"], row["height"]) for row in rows.to_pylist()}
    return sizes


@pytest.mark.parametrize(
    ("resize", "sizes", "not_enlarged"),
    [
        # small (once), b/small, wide, turned, large
        ("shorter:30", [(28, 28), (39, 29), (200, 20), (20, 60), (34, 30)], 4),
        ("fit:40x30", [(28, 28), (39, 29), (40, 4), (10, 30), (34, 30)], 2),
        ("pad:40x61", [(40, 61)] * 5, 3),
        ("crop:40x30", [(28, 21), (39, 29), (27, 20), (20, 15), (40, 30)], 4),
        ("none", [(28, 28), (39, 29), (200, 20), (20, 60), (90, 80)], 0),
    ],
)
def test_the_ledger_counts_kept_images_that_stay_smaller(
    build, corpus, tmp_path, resize, sizes, not_enlarged
):
    manifest = build(corpus, resize=resize).manifest
    stored = sizes_of(tmp_path / "set")
    small = next(name for name in stored if name.startswith("a/small"))
    names = (small, "b/small.jpg", "a/wide.jpg", "c/turned.jpg", "c/large.jpg")
    assert [stored[name] for name in names] == sizes
    assert manifest.ledger.not_enlarged == not_enlarged  # the duplicate is not kept
    raw = json.loads((tmp_path / "set" / naming.MANIFEST).read_text())
    assert raw["ledger"].get("not_enlarged", 0) == not_enlarged
    assert manifest.summary()["not_enlarged"] == not_enlarged


def test_reused_units_are_counted_and_options_do_not_share_units(build, corpus, tmp_path):
    job = {"staging": str(tmp_path / "staged"), "unit_size": "1KiB", "split": "train=1"}
    build(corpus, "first", **job)
    again = build(corpus, "again", seed=0, num_shards=1, **job)
    assert again.build["units_reused"] == again.build["units"] > 1
    assert again.manifest.ledger.not_enlarged == 4
    enlarged = build(corpus, "enlarged", enlarge=True, **job)
    assert enlarged.build["units_reused"] == 0
    assert enlarged.manifest.ledger.not_enlarged == 0
    assert "enlarge" not in enlarged.manifest.config
    assert again.manifest.config["enlarge"] is False


def test_copies_of_balancing_count_once(build, corpus):
    ledger = build(
        corpus, split="train=1", balance="oversample", resize="fit:40x30"
    ).manifest.ledger
    assert ledger.repeated and ledger.not_enlarged == 2


def test_a_small_jpeg_passes_through_and_is_counted(build, corpus, tmp_path):
    from beam_jobs.corpus.record import RawRecord
    from beam_jobs.options import ImageOptions
    from beam_jobs.record_types import RECORD_TYPES

    options = ImageOptions((str(corpus),), "out", quality="keep", resize="shorter:30")
    data = (corpus / "b" / "small.jpg").read_bytes()
    prepared = RECORD_TYPES["image"](options).prepare(RawRecord("b/small.jpg", data, data))
    assert prepared.values["image"] == data
    assert prepared.statistics["not_enlarged"]


def test_without_resize_enlarge_changes_nothing(build, corpus):
    hashes = [
        build(corpus, f"set{enlarge}", resize="none", enlarge=enlarge).manifest.root_hash
        for enlarge in (False, True)
    ]
    assert hashes[0] == hashes[1]


def test_a_set_of_an_earlier_version_is_replayed_as_it_was_built(build, corpus, tmp_path):
    build(corpus, enlarge=True)
    out = tmp_path / "set"
    saved = json.loads((out / naming.BUILD).read_text())
    del saved["options"]["enlarge"]
    (out / naming.BUILD).write_text(json.dumps(saved))
    assert replay_options(out, None, (), {"lenient": True}).enlarge
    assert not replay_options(out, None, (), {"enlarge": False}).enlarge


def test_inspect_and_the_report_say_how_many(build, corpus, tmp_path, shardmill):
    build(corpus, resize="fit:40x30", no_report=False)
    shown = " ".join(shardmill("inspect", tmp_path / "set").stdout.split())
    assert "not enlarged to --resize 2" in shown
    page = re.sub("<[^>]*>", "", (tmp_path / "set" / naming.REPORT).read_text())
    assert "2 of the kept images are smaller than --resize fit:40x30 asks" in page
