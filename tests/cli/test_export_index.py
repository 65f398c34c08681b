"""`shardmill export-index` as a person uses it."""

from __future__ import annotations

import json
import os

import pytest

from reader.index_export import INDEX_FORMATS


@pytest.fixture(scope="module")
def options():
    return {"num_shards": 3, "split": "train=0.75,test=0.25"}


@pytest.fixture
def built(make_images, build, options):
    source = make_images()
    build(source, **options)
    return source.parent / "set"


def test_it_writes_next_to_the_index(built, shardmill):
    done = shardmill("export-index", built)
    assert done.returncode == 0, done.stderr
    assert f"written    6 files, 12 records, to {built / 'index'}" in done.stdout
    assert len(list((built / "index").glob("images-train.tfrecord-0000?-of-00003.idx"))) == 3
    assert shardmill("verify", built).returncode == 0


def test_it_writes_where_it_is_reported(built, shardmill, tmp_path):
    done = shardmill("export-index", built, "--format", "dali", "--out", tmp_path / "x", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    manifest = json.loads((built / "manifest.json").read_text())
    assert summary == {
        "format": "dali",
        "folder": str(tmp_path / "x"),
        "records": 12,
        "root_hash": manifest["root_hash"],
        "splits": {"train": {"files": 3}, "test": {"files": 3}},
    }
    assert len(list((tmp_path / "x").iterdir())) == 6
    assert not list((built / "index").glob("*.idx"))


def test_help_has_examples_and_shows_how_dali_is_given_them(shardmill):
    done = shardmill("export-index", "--help")
    assert done.returncode == 0
    for text in ("Examples:", "shardmill export-index set", "index_path=sorted(glob("):
        assert text in done.stdout
    for name in INDEX_FORMATS:
        assert f"\n  {name}   " in done.stdout


def test_it_loads_no_tensorflow(built, shardmill):
    done = shardmill("export-index", built, env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert "| reader.records.split_files" in done.stderr and "tensorflow" not in done.stderr


def test_mistakes_have_one_clear_message(built, shardmill, tmp_path):
    shard = next(built.glob("*-test.tfrecord-*"))
    for arguments, code, message in (
        ([built, "--format", "dail"], 2, "Did you mean 'dali'?"),
        ([tmp_path / "none"], 3, "There is no directory"),
        ([tmp_path], 3, "manifest.json"),
        ([built, "--out", shard], 2, "is a file"),
        ([built, "--out", shard / "below"], 3, "Choose another place with --out"),
        (["--json"], 2, "Missing argument"),
    ):
        done = shardmill("export-index", *arguments)
        assert done.returncode == code, done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr + done.stdout


def test_damage_has_its_own_exit_code(built, shardmill):
    shard = next(built.glob("*-test.tfrecord-*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    done = shardmill("export-index", built)
    assert done.returncode == 4 and str(shard) in done.stderr
    shard.unlink()
    done = shardmill("export-index", built, "--json")
    assert done.returncode == 3 and str(shard) in json.loads(done.stdout)["error"]
