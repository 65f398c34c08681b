"""`shardmill cache`, and the options of the cache of `shardmill read`."""

from __future__ import annotations

import gc
import json
import os

import reader


def fill_cache(directory, cache):
    """Copies a set as it is stored; the lease ends with the stream."""
    stream = reader.load(directory, batch_size=4, image_size=16, cache="disk", cache_dir=cache)
    for copies in stream.copies:
        copies.wait()
    del stream, copies
    gc.collect()


def test_what_was_read_is_shown_and_cleared(make_images, build, shardmill, tmp_path):
    build(make_images(), tmp_path / "set", split="train=1")
    cache = tmp_path / "cache"
    options = ("--seconds", 0.1, "--batch-size", 4, "--image-size", 16, "--cache-dir", cache)
    done = shardmill(
        "read", tmp_path / "set", *options, "--cache", "disk", "--cache-stage", "decoded"
    )
    assert done.returncode == 0, done.stderr
    assert "disk: cache='disk' was asked for" in done.stdout
    fill_cache(tmp_path / "set", cache)  # `read` again would measure every stage once more
    shown = shardmill("cache", cache)
    assert shown.returncode == 0
    assert "train decoded" in shown.stdout and "in all" in shown.stdout
    listed = json.loads(shardmill("cache", cache, "--json").stdout)
    assert listed["bytes"] == sum(entry["bytes"] for entry in listed["copies"])
    assert not any(entry["in_use"] for entry in listed["copies"])
    cleared = json.loads(shardmill("cache", cache, "--clear", "--json").stdout)
    assert cleared["bytes"] == listed["bytes"]
    assert "holds no copy" in shardmill("cache", cache).stdout
    assert not list(cache.rglob("*tfrecord*"))


def test_the_directory_of_the_user_is_looked_at_and_not_made(shardmill, tmp_path):
    done = shardmill("cache", env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)})
    assert done.returncode == 0 and f"{tmp_path}/shardmill holds no copy" in done.stdout
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_in_a_directory_that_is_no_cache(shardmill, tmp_path):
    (tmp_path / "notes.txt").touch()
    for flags in ((), ("--clear",)):
        assert shardmill("cache", tmp_path, *flags).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_name_that_the_terminal_cannot_show_is_escaped(shardmill, tmp_path):
    done = shardmill("cache", tmp_path / "b\u00fc", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "b\\xfc holds no copy" in done.stdout


def test_it_loads_no_tensorflow(shardmill, tmp_path):
    done = shardmill("cache", tmp_path, env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert "reader.cache.store" in done.stderr and "tensorflow" not in done.stderr


def test_a_limit_that_is_none_is_reported(make_images, build, shardmill, tmp_path):
    build(make_images(), tmp_path / "set", split="train=1")
    done = shardmill("read", tmp_path / "set", "--batch-size", 4, "--cache-limit", "much")
    assert done.returncode == 2 and "is not a size. Write a number with a unit" in done.stderr
