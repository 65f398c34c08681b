"""MNIST and its relatives."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from shard_format import InputError, UsageError

from .conftest import kept, reasons


def idx(array):
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    """Writes train and test files; returns their folder and the images."""

    def make(compress=bytes, suffix="", shape=(5, 4), between="-"):
        folder = tmp_path / "mnist"
        folder.mkdir(exist_ok=True)
        generator = np.random.default_rng(1)
        made = {}
        for name, count in (("train", 7), ("t10k", 3)):
            made[name] = generator.integers(0, 256, (count, *shape), np.uint8)
            labels = np.arange(count, dtype=np.uint8) % 10
            images = folder / f"{name}-images{between}idx{1 + len(shape)}-ubyte{suffix}"
            images.write_bytes(compress(idx(made[name])))
            (folder / f"{name}-labels{between}idx1-ubyte{suffix}").write_bytes(
                compress(idx(labels))
            )
        return folder, made

    return make


@pytest.mark.parametrize("between", ["-", "."])
@pytest.mark.parametrize(("compress", "suffix"), [(bytes, ""), (gzip.compress, ".gz")])
def test_every_row_is_a_image(mnist, records, compress, suffix, between):
    folder, made = mnist(compress, suffix, between=between)
    results = records(folder, split="folders")
    assert not reasons(results)
    name = f"train-images{between}idx3-ubyte{suffix}"
    for row, pixels in enumerate(made["train"]):
        raw = results[f"{name}/{row:09d}"]
        assert raw.data == b"P5 4 5 255\n" + pixels.tobytes()
        assert (raw.label, raw.split) == (str(row), "train")
    assert {raw.split for raw in list(results.values())[:3]} == {"test"}
    assert len(results) == 10 and records.ignored == []


def test_images_are_decoded_as_they_are(mnist, build, tmp_path):
    from shard_format import decode_example, read_records

    folder, _ = mnist(shape=(30, 40))
    manifest = build(folder, split="train=1", resize="none", quality=100).manifest
    assert manifest.schema["label"].class_names == tuple("0123456")
    assert manifest.ledger.kept == 10
    payloads = [p for shard in tmp_path.glob("set/*.tfrecord-*") for _, p in read_records(shard)]
    assert len(payloads) == 10
    assert all(decode_example(payload)["image"] for payload in payloads)
    assert (
        build(
            folder, "two", split="train=1", resize="none", quality=100, workers=2, unit_size="1KiB"
        ).manifest
        == manifest
    )


def test_coloured_images(mnist, records):
    folder, made = mnist(shape=(5, 4, 3))
    results = kept(records(folder))
    assert results["train-images-idx4-ubyte/000000002"][0] == (
        b"P6 4 5 255\n" + made["train"][2].tobytes()
    )


def test_a_file_named_alone_finds_its_labels(mnist, records):
    folder, _ = mnist()
    assert len(kept(records(folder / "t10k-images-idx3-ubyte"))) == 3
    results = records(folder / "t10k-images-idx3-ubyte", folder / "t10k-labels-idx1-ubyte")
    assert len(kept(results)) == 3 and not reasons(results)


def test_labels_that_are_missing_or_too_few(mnist, records):
    folder, _ = mnist()
    labels = folder / "t10k-labels-idx1-ubyte"
    labels.write_bytes(idx(np.zeros(2, np.uint8)))
    with pytest.raises(InputError, match=r"3 images.*2 are declared, it has 2"):
        records(folder)
    labels.write_bytes(idx(np.zeros(3, np.uint8))[:-1])
    with pytest.raises(InputError, match=r"3 images.*3 are declared, it has 2"):
        records(folder)
    labels.write_bytes(b"no labels at all")
    with pytest.raises(InputError, match="has 3 images"):
        records(folder)
    labels.unlink()
    with pytest.raises(InputError, match="has no file of labels"):
        records(folder)
    assert len(kept(records(folder, no_labels=True))) == 10


@pytest.mark.parametrize(("compress", "suffix"), [(bytes, ""), (gzip.compress, ".gz")])
def test_a_cut_file_gives_its_whole_images(mnist, records, compress, suffix):
    folder, made = mnist(compress, suffix)
    file = folder / f"train-images-idx3-ubyte{suffix}"
    data = idx(made["train"])
    file.write_bytes(compress(data[: 16 + 3 * 20 + 7]))
    results = records(folder)
    assert len(kept(results)) == 6
    reason, detail, rest = results[f"{file.name}/000000003"]
    assert (reason, rest) == ("damaged-file", data[16 + 60 : 16 + 67])
    assert "7 images are declared, image 3 is cut" in detail
    file.write_bytes(compress(data + b"more"))
    results = records(folder)
    assert len(kept(results)) == 10 and results[f"{file.name}/000000007"][0] == "damaged-file"


def test_files_of_another_kind(mnist, records):
    folder, _ = mnist()
    (folder / "README").write_text("MNIST")
    (folder / "vectors-idx2-ubyte").write_bytes(idx(np.zeros((2, 2), np.uint8)))
    (folder / "huge-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, *[2**32 - 1] * 3))
    (folder / "other-labels-idx1-ubyte").write_bytes(idx(np.zeros(2, np.uint8)))
    assert reasons(records(folder)) == {
        "README": "not-an-idx",
        "vectors-idx2-ubyte": "not-pictures",
        "huge-idx3-ubyte": "not-pictures",
        "other-labels-idx1-ubyte": "not-pictures",
    }
    with pytest.raises(UsageError, match="IDX files have none"):
        records(folder, group_by="writer")
