"""A dry run tells what a job would do, and leaves no trace."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil

import numpy as np
import pytest
from PIL import Image

from beam_jobs import ImageOptions, TextOptions, dry_run, preprocess
from beam_jobs.stages import trial
from shard_format import InputError, UsageError


def everything(folder):
    """Every path below a folder, with its size and time of change."""
    stats = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        stats[str(path)] = (status.st_size, status.st_mtime_ns)
    return stats


@pytest.fixture
def photos(tmp_path):
    """40 images in three classes, a damaged one, one outside of them, and a hidden file."""
    folder = tmp_path / "photos"
    numbers = np.random.default_rng(0)
    for number in range(40):
        name = "hat" if number < 24 else "shoe" if number < 36 else "bag"
        path = folder / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numbers.integers(0, 255, (24, 24, 3), np.uint8)).save(path)
    (folder / "hat" / "bad.png").write_bytes(b"\x89PNG no image")
    (folder / "loose.png").write_bytes(b"\x89PNG")
    (folder / ".hidden").write_bytes(b"")
    return folder


@pytest.fixture
def lines(tmp_path):
    """20,000 documents in one file of lines, 2.8 MiB, with their class in each."""
    numbers = random.Random(0)
    path = tmp_path / "corpus.jsonl"
    with path.open("w") as file:
        for number in range(20_000):
            words = " ".join(f"word{numbers.randrange(5000)}" for _ in range(10))
            file.write(json.dumps({"text": f"{number} {words}", "label": f"c{number % 3}"}) + "\n")
    return path


def test_a_folder_of_images(photos, tmp_path):
    outlook = dry_run(ImageOptions(photos, tmp_path / "set", resize="shorter:16", workers=3))
    assert (outlook.files, outlook.items, outlook.ignored, outlook.state) == (42, 42, 1, "new")
    assert outlook.kinds == {".png": 42}
    assert outlook.classes == {"hat": 25, "shoe": 12, "bag": 4}
    (rejected,) = outlook.rejected.items()
    assert rejected[0] == "no-class-folder" and rejected[1][:2] == (1, "loose.png")
    assert outlook.given == {"resize": "shorter:16", "workers": 3}
    assert outlook.detected == {"source": "class-folders"}
    assert outlook.workers == 3 and outlook.units >= 1 and outlook.units_staged == 0
    assert outlook.trial.read == 41 and outlook.trial.kept == 40
    assert sum(outlook.trial.reasons.values()) == 1
    assert outlook.estimate.records == 41 and outlook.estimate.kept == 40
    json.dumps(outlook.as_json())


def test_nothing_is_written(photos, tmp_path):
    """Not even with a folder for OUT that cannot be written, or with --staging."""
    parent = tmp_path / "there"
    parent.mkdir(mode=0o500)
    before = everything(tmp_path)
    dry_run(ImageOptions(photos, parent / "set"))
    dry_run(ImageOptions(photos, tmp_path / "new" / "set", staging=str(tmp_path / "staging")))
    assert everything(tmp_path) == before


def test_the_estimate_is_about_right(photos, tmp_path):
    options = ImageOptions(photos, tmp_path / "set", resize="none", dedup="off", no_report=True)
    estimate = dry_run(options).estimate
    manifest = preprocess(options).manifest
    size = sum(shard.bytes for split in manifest.splits.values() for shard in split.shards)
    assert estimate.records + 1 == manifest.ledger.read  # one is rejected in listing
    assert estimate.kept == manifest.ledger.kept
    assert estimate.set_bytes == pytest.approx(size, rel=0.1)


def test_staged_units_are_counted(photos, tmp_path):
    staging = tmp_path / "staging"
    options = ImageOptions(photos, tmp_path / "set", staging=str(staging), no_report=True)
    preprocess(options)
    before = everything(tmp_path)
    complete = dry_run(options)
    assert complete.state == "complete"
    other = dry_run(ImageOptions(photos, tmp_path / "other", staging=str(staging), dedup="off"))
    assert other.state == "new" and other.units_staged == other.units
    assert other.estimate.seconds == 0
    with pytest.raises(InputError, match="holds another set"):
        dry_run(ImageOptions(photos, tmp_path / "set", seed=2))
    shard = next((tmp_path / "set").glob("*.tfrecord-*"))
    os.truncate(shard, 1)  # the job would build the set again, and delete its manifest for that
    assert dry_run(options).state == "new"
    assert everything(tmp_path).keys() == before.keys()


def test_documents_of_a_large_file_are_counted_by_their_bytes(lines, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "_BYTES", 200_000)  # as on a slow machine
    outlook = dry_run(TextOptions(lines, tmp_path / "set", unit_size="1MiB"))
    assert outlook.files == 1 and outlook.items > 1 and outlook.kinds == {".jsonl": outlook.items}
    assert outlook.trial.read < 5000 and set(outlook.trial.labels) == {"c0", "c1", "c2"}
    assert outlook.classes == {} and outlook.detected == {"label_column": "label"}
    assert outlook.estimate.records == pytest.approx(20_000, rel=0.1)


def test_no_estimate_from_the_middle_of_a_compressed_file(lines, tmp_path, monkeypatch):
    packed = tmp_path / "corpus.jsonl.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    whole = dry_run(TextOptions(packed, tmp_path / "set"))
    assert whole.estimate is None or whole.estimate.records == 20_000  # a slow machine has no time
    monkeypatch.setattr(trial, "_BYTES", 200_000)
    part = dry_run(TextOptions(packed, tmp_path / "set"))
    assert part.estimate is None and part.kinds == {".jsonl.gz": 1}
    json.dumps(part.as_json())


def test_members_of_a_compressed_archive_are_sampled_from_its_start(photos, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "photos"), "gztar", photos)
    outlook = dry_run(ImageOptions(archive, tmp_path / "set"))
    assert outlook.files == 1 and outlook.items == 42 and outlook.estimate.records == 41


def test_what_the_job_would_refuse_is_refused(photos, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        dry_run(ImageOptions(tmp_path / "missing", tmp_path / "set"))
    with pytest.raises(InputError, match="overlap"):
        dry_run(ImageOptions(photos, photos / "set"))
    with pytest.raises(UsageError, match="resize"):
        dry_run(ImageOptions(photos, tmp_path / "set", resize="huge"))
    assert not (tmp_path / "set").exists()


def test_a_rejected_record_does_not_fail_a_dry_run(photos, tmp_path):
    outlook = dry_run(ImageOptions(photos, tmp_path / "set", on_bad="fail"))
    assert sum(outlook.trial.reasons.values()) == 1
