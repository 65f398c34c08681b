"""An output that is full, read-only, or built into twice at once, and a clock that is set back."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time

import pytest

from beam_jobs import ImageOptions, preprocess
from shard_format import InputError, naming
from shard_format.verification import verify, verify_set


@pytest.fixture
def disk(tmp_path):
    """A small file system; a function that mounts it again with other options."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs mount")
    if done.returncode:
        pytest.skip("may not mount a file system")

    def again(options):
        subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)

    yield place, again
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def build(make_images, tmp_path):
    corpus = make_images(20, side=64)

    def run(out, **options):
        values = {
            "resize": "none",
            "encoding": "png",
            "num_shards": 2,
            "workers": 1,
            "no_report": True,
        }
        return preprocess(ImageOptions(corpus, out, unit_size="20KiB", **(values | options)))

    return run


@pytest.mark.proof
def test_a_disk_that_is_full_at_any_point(build, disk, tmp_path):
    place, again = disk
    expected = build(tmp_path / "whole", no_report=False).manifest
    failures = 0
    for size in itertools.count(64, 128):  # KiB
        again(f"size={size}k")
        try:
            manifest = build(place / "set", no_report=False).manifest
            break
        except InputError as error:
            assert str(error).startswith("No space left while writing"), error
            assert "run the same command again" in str(error)
            if (place / "set" / naming.MANIFEST).exists():  # only the report did not fit
                verified = verify_set(place / "set")
                files = [one.file for one in verified.damages + verified.minor]
                assert files in ([naming.REPORT], [naming.REPORT, naming.CARD])
            failures += 1
    assert failures > 1 and manifest == expected
    assert verify(place / "set")[1] == []
    assert not (place / "set" / naming.WORK_DIR).exists()


@pytest.mark.proof
def test_a_full_disk_leaves_the_set_that_was_to_be_replaced(build, disk):
    place, again = disk
    again("size=10m")
    first = build(place / "set").manifest
    with (place / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    with pytest.raises(InputError, match="No space left"):
        build(place / "set", seed=1, overwrite=True)
    assert verify(place / "set")[1] == []
    (place / "ballast").unlink()
    assert build(place / "set").manifest == first
    assert build(place / "set", seed=1, overwrite=True).manifest != first
    assert [path.name for path in place.iterdir()] == ["set"]


@pytest.mark.proof
def test_an_output_that_is_read_only(build, disk):
    place, again = disk
    again("size=10m,ro")
    with pytest.raises(InputError, match="Read-only file system"):
        build(place / "set")
    again("rw")
    first = build(place / "set").manifest
    again("ro")
    with pytest.raises(InputError, match="Read-only file system"):
        build(place / "set", seed=1, overwrite=True)
    again("rw")
    assert build(place / "set").manifest == first and verify(place / "set")[1] == []


@pytest.mark.parametrize("overwrite", [pytest.param(False, marks=pytest.mark.proof), True])
def test_the_same_command_at_once_is_refused(overwrite, build, make_images, tmp_path):
    if overwrite:
        build(tmp_path / "set")
    refused = []

    def meanwhile(stage, done, total):
        if stage == "commit" and not refused:
            with pytest.raises(InputError, match="Another build is writing to") as error:
                build(tmp_path / "set", seed=1, overwrite=overwrite)
            refused.append(error)

    options = ImageOptions(
        tmp_path / "corpus", tmp_path / "set", resize="none", seed=1, overwrite=overwrite
    )
    manifest = preprocess(options, on_progress=meanwhile).manifest
    assert len(refused) == 1 and manifest.ledger.kept == 20
    assert verify(tmp_path / "set")[1] == []
    assert not (tmp_path / "set.new").exists()


def test_a_clock_that_is_set_back(build, tmp_path, monkeypatch):
    expected = build(tmp_path / "whole").manifest
    real, hours = time.time, itertools.count()
    monkeypatch.setattr(time, "time", lambda: real() - 3600 * next(hours))
    assert build(tmp_path / "set").manifest == expected
    info = json.loads((tmp_path / "set" / naming.BUILD).read_text())
    assert info["seconds"] > 0 and info["records_per_second"] > 0
    assert all(stage["seconds"] >= 0 for stage in info["stages"])
    assert build(tmp_path / "set").already_built
