"""Sets that the first version wrote are read for ever: tests/golden/v1/set is never made again."""

from __future__ import annotations

import pytest

from shard_format import load_manifest
from shard_format.verification import verify

ROOT_HASH = "92da00d4a679f162cb740c7ba3ce22da2e3e4272184bf390e6755b1c5d4deb57"


@pytest.fixture
def first(repository):
    return repository / "tests" / "golden" / "v1" / "set"


def test_it_is_whole(first):
    manifest, damages = verify(first)
    assert damages == []
    assert manifest.root_hash == ROOT_HASH
    assert manifest.ledger.repeated == 0
    assert (manifest.ledger.read, manifest.ledger.kept) == (324, 320)


def test_the_reader_reads_it(first):
    import reader

    stream = reader.load(
        first, split="test", batch_size=8, image_size=32, augment="none", shuffle="off", epochs=1
    )
    labels = [label for _, batch in stream.dataset for label in batch.numpy().tolist()]
    assert len(labels) == load_manifest(first).splits["test"].records == 30


def test_tfds_reads_it(first):
    import tensorflow_datasets as tfds

    examples = list(tfds.builder_from_directory(first).as_dataset(split="test"))
    assert len(examples) == 30


def test_people_read_it(first, shardmill, tmp_path):
    assert "320" in shardmill("inspect", first).stdout
    done = shardmill("report", first, "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert shardmill("quarantine", "list", first).returncode == 0
