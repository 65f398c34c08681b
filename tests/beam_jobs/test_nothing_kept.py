"""A build of which every record is rejected: it says why, and leaves nothing in the way."""

from __future__ import annotations

import dataclasses
import json

import pytest

from beam_jobs import ImageOptions, preprocess, run
from foundation.errors import EmptySetError
from shard_format import InputError, load_manifest


@pytest.fixture
def unusable(make_images, tmp_path):
    """A job that rejects 10 images for four reasons, and one with other options that keeps some."""
    corpus = make_images(4, classes=1, name="corpus")
    for number, path in enumerate(sorted(corpus.rglob("*.jpg")) * 2):
        data = [path.read_bytes()[:-40], b"no image"][number // 4]
        (path.parent / f"bad{number}.jpg").write_bytes(data[: 0 if number == 7 else None])
    (path.parent / "bad3.jpg").unlink()
    (path.parent / "bad6.jpg").unlink()
    common = {"workers": 1, "no_report": True, "split": "train=1"}
    bad = ImageOptions((str(corpus),), str(tmp_path / "set"), min_side=99, **common)
    good = ImageOptions((str(corpus),), str(tmp_path / "set"), resize="none", **common)
    return bad, good


def test_reasons_and_examples_are_named(unusable, tmp_path):
    bad, good = unusable
    with pytest.raises(EmptySetError) as raised:
        preprocess(bad)
    lines = str(raised.value).splitlines()
    assert [line.partition(": ")[0] for line in lines[1:3]] == ["  too-small", "  truncated"]
    assert lines[2].startswith("  truncated: 3 records, such as class0/bad0.jpg: ")
    assert lines[3].startswith("  not-an-image: 2 records, such as class0/bad4.jpg: ")
    assert [*lines[:2], *lines[4:]] == [
        "All 10 records were rejected:",
        "  too-small: 4 records, such as class0/000.jpg: it is 30 x 24 pixels, and --min-side is "
        "99",
        "  and 1 further reason",
        "Correct the files or the options and run the command again; --keep-empty keeps the set "
        f"without records, for 'shardmill quarantine'. Nothing was left in {tmp_path / 'set'}.",
    ]
    assert not (tmp_path / "set").exists()
    assert preprocess(good).manifest.ledger.kept == 4  # nothing blocks the corrected command


def test_an_old_set_stays(unusable, tmp_path):
    bad, good = unusable
    before = preprocess(good).manifest
    with pytest.raises(EmptySetError, match="is as it was"):
        preprocess(dataclasses.replace(bad, overwrite=True))
    assert load_manifest(tmp_path / "set") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "set"]
    assert not (tmp_path / "set" / ".shardmill").exists()


def test_staged_units_stay_where_they_are_asked_for(unusable, tmp_path):
    bad, _ = unusable
    staging = tmp_path / "staging"
    with pytest.raises(EmptySetError, match=f"Staged units stay in {staging}"):
        preprocess(dataclasses.replace(bad, staging=str(staging)))
    assert list(staging.rglob("*.rejects")) and not (tmp_path / "set").exists()


def test_an_interrupted_build_stays(unusable, tmp_path, monkeypatch):
    bad, good = unusable

    def stop(*_):
        raise InputError("stopped")

    with monkeypatch.context() as patch, pytest.raises(InputError, match="stopped"):
        patch.setattr(run, "run_build", stop)
        preprocess(good)
    work = tmp_path / "set" / ".shardmill"
    with pytest.raises(EmptySetError, match=f"has staged stays in {work}"):
        preprocess(bad)
    assert (work / "units").is_dir()
    assert preprocess(good).manifest.ledger.kept == 4 and not work.exists()


def test_an_empty_set_is_kept_on_request(unusable, tmp_path, shardmill):
    bad, _ = unusable
    command = ("preprocess", "images", *bad.sources, "--out", bad.out, "--min-side", 99)
    command += ("--source", "class-folders")
    done = shardmill(*command, "--json")
    assert done.returncode == 3 and not (tmp_path / "set").exists()
    assert "too-small: 4 records, such as class0/000.jpg" in done.stderr
    done = shardmill(*command, "--keep-empty", "--json")
    assert done.returncode == 3
    assert "All 10 records were rejected; see" in done.stderr
    assert json.loads(done.stdout)["kept"] == 0
    assert "too-small" in shardmill("quarantine", "list", tmp_path / "set").stdout


def test_a_build_whose_records_are_all_kept_out_says_so(make_images, tmp_path, shardmill):
    corpus = make_images(count=2, classes=2)
    ids = tmp_path / "ids.txt"
    files = (path.relative_to(corpus).as_posix() for path in corpus.rglob("*") if path.is_file())
    ids.write_text("\n".join(files))
    command = ("preprocess", "images", corpus, "--out", tmp_path / "set", "--exclude-ids", ids)
    done = shardmill(*command)
    assert done.returncode == 3 and not (tmp_path / "set").exists()
    assert "Of 2 records none is left:\n  kept out: 2 records, by --exclude-ids" in done.stderr
