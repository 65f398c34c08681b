"""A set is whole if every file that its manifest names is there, and no file of another build."""

from __future__ import annotations

import pytest

from beam_jobs import ImageOptions, preprocess
from beam_jobs.build import has_all_files
from foundation import storage
from shard_format import index_parts, load_manifest, naming


@pytest.fixture(params=["local", "bucket"])
def large(request, write_corpus, tmp_path, monkeypatch):
    """A set whose index is in parts."""
    monkeypatch.setattr(index_parts, "PART_ROWS", 4)
    out = str(tmp_path / "set")
    if request.param == "bucket":
        request.getfixturevalue("memory")
        out = "memory://bucket/set"
    corpus = write_corpus("corpus", {f"a/{n}": n for n in range(12)})
    preprocess(ImageOptions((str(corpus),), out, split="train=1", num_shards=6, no_report=True))
    return storage.place_of(out)


def test_a_file_that_is_lost_or_has_another_size_is_noticed(large):
    manifest = load_manifest(large)
    names = [*manifest.files, *(shard.file for shard in manifest.splits["train"].shards)]
    assert has_all_files(large, manifest) and len(names) > 10
    for name in names:
        content = storage.read_bytes(large / name)
        storage.delete(large / name)
        assert not has_all_files(large, load_manifest(large)), name
        storage.write_bytes(large / name, content[:-1])
        assert not has_all_files(large, load_manifest(large)), name
        storage.write_bytes(large / name, content)
    assert has_all_files(large, load_manifest(large))


def test_files_of_an_unfinished_build_with_other_options_are_deleted(write_corpus, tmp_path):
    out = tmp_path / "set"
    own = ["imagenet-train.tfrecord-00001-of-00003"]
    strangers = [
        "imagenet-train.tfrecord-00003-of-00003",
        "imagenet-train.tfrecord-00001-of-00004",
        "imagenet-train.tfrecord-000001-of-00003",
        "imagenet-test.tfrecord-00001-of-00003",
        "other-train.tfrecord-00001-of-00003",
        f"grade{naming.LABELS_SUFFIX}",
        naming.index_part_file("train", 2),
        naming.DUPLICATES,
    ]
    for folder in (naming.WORK_DIR, naming.INDEX_DIR):
        (out / folder).mkdir(parents=True)
    for name in (*own, *strangers, "notes"):
        (out / name).write_text("of somebody")
    corpus = write_corpus("corpus", {f"a/{n}": n for n in range(6)})
    values = {"split": "train=1", "num_shards": 3, "name": "imagenet", "no_report": True}
    preprocess(ImageOptions((str(corpus),), str(out), **values))
    assert not [name for name in strangers if (out / name).exists()]
    assert (out / own[0]).read_bytes() != b"of somebody" and (out / "notes").exists()
    assert has_all_files(out, load_manifest(out))
