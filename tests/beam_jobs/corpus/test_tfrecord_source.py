"""TFRecord files of others: their features, their class names, their damage."""

from __future__ import annotations

import gzip
import random
import struct
import zlib

import pytest

from shard_format import Feature, InputError, Schema, encode_example, frame, masked_crc

from .conftest import EXAMPLE, framed, kept, reasons

JPEG = b"\xff\xd8\xff" + bytes(range(200))
NUMBERS = Schema("image", (Feature("image", "bytes"), Feature("label", "int64", (-1,))))


def examples(count, label=lambda n: f"class{n % 3}"):
    return [{"image": JPEG + bytes([n]), "label": label(n)} for n in range(count)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress])
def test_records_have_numbers(compress, tmp_path, records):
    (tmp_path / "a.tfrecord").write_bytes(compress(framed(examples(5))))
    results = kept(records(tmp_path / "a.tfrecord"))
    assert results == {
        f"a.tfrecord/{n:09d}": (JPEG + bytes([n]), f"class{n % 3}") for n in range(5)
    }
    assert len(records.items) == 1, "a small file is one item"


def test_whole_numbers_get_the_names_next_to(tmp_path, records):
    file = tmp_path / "images-train.tfrecord-00000-of-00001"
    file.write_bytes(framed(examples(4, lambda n: [n - 1]), NUMBERS))
    assert [label for _, label in kept(records(tmp_path)).values()] == ["-1", "0", "1", "2"]
    before = [item.locator for item in records.items]
    (tmp_path / "label.labels.txt").write_text("cat\ndog\n")
    (tmp_path / "features.json").write_text("{}")
    results = records(tmp_path, split="folders")
    # No name is a class of its own: the number stands for none, or is out of range.
    assert [raw.label for raw in results.values() if type(raw) is not tuple] == [None, "cat", "dog"]
    assert list(reasons(results).values()) == ["bad-label"]
    assert before != [item.locator for item in records.items], "other names, another unit"
    assert {item.split for item in records.items} == {"train"}
    assert records.ignored == ["features.json", "label.labels.txt"]


def test_several_labels_groups_and_other_names(tmp_path, records):
    schema = Schema(
        "image",
        (
            Feature("image/encoded", "bytes"),
            Feature("tags", "bytes", (-1,)),
            Feature("writer", "int64"),
            Feature("fold", "text"),
        ),
    )
    rows = [
        {"image/encoded": JPEG, "tags": [b"b", b"a"], "writer": 3, "fold": "val"},
        {"image/encoded": JPEG, "tags": [], "writer": 4, "fold": "?"},
    ]
    (tmp_path / "a").write_bytes(framed(rows, schema))
    options = {"label_column": "tags", "group_by": "writer", "split": "column:fold"}
    results = list(records(tmp_path / "a", multi_label=True, **options).values())
    assert (results[0].label, results[0].group, results[0].split) == ("a\x1fb", "3", "validation")
    assert results[1][0] == "no-split"
    with pytest.raises(InputError, match=r"a has no column 'x' \(--image-column\).*'fold'"):
        records(tmp_path / "a", image_column="x", **options)
    with pytest.raises(InputError, match=r"no column 'label' \(--label-column\).*use --no-labels"):
        records(tmp_path / "a")


def test_records_that_are_no_images(tmp_path, records):
    other = Schema("x", (Feature("image", "int64"), Feature("label", "bytes")))
    two = Schema("x", (Feature("image", "bytes", (-1,)), Feature("label", "bytes")))
    payloads = [
        encode_example(EXAMPLE, examples(1)[0]),
        b"\xff\xff no example",
        encode_example(other, {"image": 3, "label": "x"}),
        encode_example(two, {"image": [b"1", b"2"], "label": "x"}),
        encode_example(two, {"image": [], "label": "x"}),
        encode_example(EXAMPLE, {"image": JPEG, "label": b"\xff"}),
        b"",
    ]
    (tmp_path / "a").write_bytes(b"".join(map(frame, payloads)))
    results = records(tmp_path / "a")
    assert list(reasons(results).values()) == [
        "not-an-example", "no-image", "no-image", "no-image", "bad-label", "no-image",
    ]  # fmt: skip
    assert [results[name][2] for name in reasons(results)] == [*payloads[1:5], JPEG, b""]


def test_a_payload_that_differs_from_its_checksum(tmp_path, records):
    data = bytearray(framed(examples(3)))
    size = len(data) // 3
    data[size + 100] ^= 1
    (tmp_path / "a").write_bytes(data)
    results = records(tmp_path / "a")
    assert reasons(results) == {"a/000000001": "damaged-record"}
    assert results["a/000000001"][2] == data[size + 12 : 2 * size - 4]


@pytest.mark.parametrize("compress", [None, gzip.compress])
def test_a_damaged_length_ends_the_file(compress, tmp_path, records):
    data = bytearray(framed(examples(4)))
    size = len(data) // 4
    data[2 * size] ^= 1
    (tmp_path / "a").write_bytes(compress(data) if compress else data)
    results = records(tmp_path / "a")
    assert list(kept(results)) == ["a/000000000", "a/000000001"]
    reason, detail, rest = results["a/000000002"]
    assert (reason, rest) == ("damaged-file", data[2 * size :])
    assert "no record's length and checksum" in detail


@pytest.mark.parametrize("cut", [5, 12, 100, 230])
def test_a_file_that_ends_too_early(cut, tmp_path, records):
    data = framed(examples(3))
    size = len(data) // 3
    (tmp_path / "a").write_bytes(data[: 2 * size + cut])
    results = records(tmp_path / "a")
    assert len(kept(results)) == 2
    reason, _, rest = results["a/000000002"]
    assert reason == "damaged-file" and rest == data[2 * size : 2 * size + cut]
    (tmp_path / "b.gz").write_bytes(gzip.compress(random.Random(1).randbytes(9) + data)[:-9])
    (tmp_path / "c.gz").write_bytes(gzip.compress(data)[:-9])
    assert reasons(records(tmp_path / "b.gz", source="tfrecord")) == {"b.gz": "not-a-tfrecord"}
    assert list(reasons(records(tmp_path / "c.gz")).values()) == ["damaged-stream"]


def test_a_length_that_looks_like_gzip(tmp_path, records):
    """A record of 35,615 bytes begins with 1f 8b, as a gzip file does."""
    size = 0x8B1F - (len(encode_example(EXAMPLE, {"image": bytes(30000), "label": "x"})) - 30000)
    data = framed([{"image": bytes(size), "label": "x"}])
    assert data[:2] == b"\x1f\x8b"
    (tmp_path / "a").write_bytes(data)
    assert len(kept(records(tmp_path / "a"))) == 1


def test_an_absurd_length_with_a_right_checksum(tmp_path, records):
    length = struct.pack("<Q", 1 << 62)
    (tmp_path / "a").write_bytes(length + struct.pack("<I", masked_crc(length)) + b"rest")
    assert reasons(records(tmp_path / "a", source="tfrecord")) == {"a/000000000": "damaged-file"}


def test_other_and_empty_files(tmp_path, records):
    (tmp_path / "a.tfrecord").write_bytes(framed(examples(2)))
    (tmp_path / "b.tfrecord").write_bytes(b"")
    (tmp_path / "c.tfrecord").write_bytes(gzip.compress(b""))
    (tmp_path / "notes.txt").write_text("hello world, these are notes")
    results = records(tmp_path, source="tfrecord")
    assert reasons(results) == {
        "b.tfrecord": "no-images",
        "c.tfrecord": "no-images",
        "notes.txt": "not-a-tfrecord",
    }
    assert len(kept(results)) == 2


def test_a_shard_set_that_lost_a_shard(make_images, build, records, tmp_path):
    build(make_images(6), "first")
    next((tmp_path / "first").glob("*train*")).unlink()
    with pytest.raises(InputError, match="is missing in the set"):
        records(tmp_path / "first")


def test_real_files_of_other_writers(corpora, records):
    interop = corpora / "interop"
    results = records(
        interop / "ydf" / "toy.tfe-tfrecord-00000-of-00002",
        image_column="Cat_1",
        label_column="Num_1",
    )
    assert [raw.label for raw in results.values()] == ["1", "2", "3"]
    plain = interop / "ydf" / "toy.nocompress-tfe-tfrecord-00000-of-00002"
    again = records(plain, image_column="Cat_1", label_column="Num_1")
    assert list(kept(again).values()) == list(kept(results).values())
    results = records(
        interop / "torchdata-fakedata" / "tfrecord" / "example.tfrecord",
        image_column="x_byte", label_column="x_int", multi_label=True,
    )  # fmt: skip
    assert results
    for path in (interop / "tfx" / "csv_example_gen").rglob("*.gz"):
        results = records(path, image_column="company", label_column="trip_start_month")
        assert len(results) > 100 and kept(results)
