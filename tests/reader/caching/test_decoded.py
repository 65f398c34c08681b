"""Images that are cached decoded: the same batches, from pixels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from shard_format import (
    DamageError,
    Feature,
    Schema,
    ShardSetError,
    UsageError,
    decode_example,
    load_manifest,
    open_index,
    read_records,
    verify,
)
from shard_format.naming import index_file
from tests.fixtures.proofs import proofs

SIZES = ((24, 32), (31, 17), (5, 5))


def put(path: Path, content: bytes) -> None:
    """Another file in its place: an earlier stream may still read this one, which it has mapped."""
    path.unlink()
    path.write_bytes(content)


def decoded_set(cache: Path, split: str = "train") -> Path:
    (folder,) = cache.glob(f"*/decoded-simplejpeg*/{split}")
    return folder


@pytest.mark.parametrize(
    ("encoding", "labels"),
    [
        ("jpeg", "one"),
        ("raw", "none"),
        *(
            pytest.param(encoding, labels, marks=pytest.mark.proof)
            for encoding, labels in [
                ("png", "many"),
                ("jpeg", "many"),
                ("jpeg", "none"),
                ("webp", "none"),
                ("raw", "one"),
            ]
        ),
    ],
)
def test_the_batches_are_the_same(
    make_set: Any, tmp_path: Path, batches: Any, same: Any, encoding: str, labels: str
) -> None:
    directory = make_set({"train": (9, 12)}, sizes=SIZES, encoding=encoding, labels=labels)
    options: dict[str, Any] = {"batch_size": 6, "count": 7, "cache_dir": tmp_path / "cache"}
    if labels == "none":
        options["image_size"] = 12
    plain, _ = batches(directory, cache="off", **options)
    plain = plain if labels != "none" else [[batch] for batch in plain]
    for cache in ("memory", "disk", "disk"):
        cached, stream = batches(directory, cache=cache, cache_stage="decoded", **options)
        cached = cached if labels != "none" else [[batch] for batch in cached]
        assert same(plain, cached)
        stage = "stored" if encoding == "raw" else "decoded"
        assert (stream.info.cache, stream.info.cache_stage) == (cache, stage)
    assert ("stored as pixels" in stream.info.cache_reason) == (encoding == "raw")


@pytest.mark.parametrize("shuffle", ["full", "off"])
def test_in_every_order_and_of_every_worker(
    make_set: Any, tmp_path: Path, batches: Any, same: Any, shuffle: str
) -> None:
    directory = make_set({"train": (30, 11)}, sizes=SIZES)
    options = {"shuffle": shuffle, "worker": (1, 2), "batch_size": 8, "cache_dir": tmp_path / "c"}
    plain, _ = batches(directory, 9, cache="off", **options)
    cached, _ = batches(directory, 9, cache="disk", cache_stage="decoded", **options)
    assert same(plain, cached)


def test_photographs(samples: Path, tmp_path: Path, build: Any, batches: Any, same: Any) -> None:
    """Of which most have colour at half the width."""
    build(samples, tmp_path / "set", resize="shorter:64", split="train=1")
    plain, _ = batches(tmp_path / "set", 6, image_size=32, cache="off")
    cached, _ = batches(tmp_path / "set", 6, image_size=32, cache="memory", cache_stage="decoded")
    assert same(plain, cached)


def test_the_copy_can_be_verified(make_set: Any, tmp_path: Path, batches: Any) -> None:
    directory = make_set({"train": (9, 12), "test": (4,)}, sizes=SIZES)
    cache = tmp_path / "cache"
    told: list[tuple[int, int]] = []
    batches(
        directory,
        cache="disk",
        cache_stage="decoded",
        cache_dir=cache,
        on_cached=lambda done, total: told.append((done, total)),
    )
    size = load_manifest(directory).splits["train"].bytes
    assert told[-1] == (size, size) and told == sorted(told)
    manifest, damages = verify(decoded_set(cache))
    assert damages == [] and set(manifest.splits) == {"train"}
    assert manifest.config["decoded_from"] == load_manifest(directory).root_hash
    pixels = 3 * sum(SIZES[number % 3][0] * SIZES[number % 3][1] for number in range(21))
    assert (decoded_set(cache) / "pixels").stat().st_size == pixels
    with pytest.raises(ShardSetError, match=r"unknown encoding 'beside'"):
        reader.load(decoded_set(cache), batch_size=2, image_size=8)


def test_all_other_features_and_columns_stay(
    write_records: Any, tmp_path: Path, make_set: Any
) -> None:
    tiny = make_set({"train": (2,)})
    (_, payload), (_, other) = read_records(next(tiny.glob("*train.tfrecord*")))
    image = Feature("photo", "image", (-1, -1, 3), "jpeg")
    schema = Schema("image", (Feature("id", "text"), Feature("note", "text"), image))
    columns = [("width", 32), ("height", 24), ("mood", 7)]
    import pyarrow as pa

    directory = write_records(
        schema,
        {
            "train": [
                ({"id": "a", "note": "x", "photo": decode_example(one)["image"]}, dict(columns))
                for one in (payload, other)
            ]
        },
        columns=tuple(pa.field(name, pa.int32()) for name, _ in columns),
        name="photographs",
    )
    options = {"batch_size": 2, "image_size": 8, "cache_dir": tmp_path / "cache"}
    reader.load(directory, cache="disk", cache_stage="decoded", **options)
    copy = decoded_set(tmp_path / "cache")
    records = [decode_example(one) for _, one in read_records(next(copy.glob("*.tfrecord*")))]
    assert [record["note"] for record in records] == [[b"x"]] * 2
    assert [record["pixels_at"] for record in records] == [[0], [24 * 32 * 3]]
    assert (copy / "pixels").stat().st_size == 2 * 24 * 32 * 3
    index = open_index(copy / index_file("train"))
    assert index["mood"].to_pylist() == [7, 7]
    assert index["offset"].to_pylist() == [0, index["length"][0].as_py()]


def test_a_flipped_bit_of_a_pixel_is_mended(
    make_set: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []  # `pytest.warns` may lose what threads of TensorFlow warn of
    monkeypatch.setattr(warnings, "warn", lambda text, *_, **__: said.append(str(text)))
    directory = make_set({"train": (5,)})
    options: dict[str, Any] = {"batch_size": 5, "epochs": 1, "cache_dir": tmp_path / "cache"}
    options |= {"cache": "disk", "cache_stage": "decoded"}
    (whole, _), *_ = reader.load(directory, **options).numpy()
    copy = decoded_set(tmp_path / "cache")
    content = (copy / "pixels").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 128
    put(copy / "pixels", flipped)
    (images, _), *_ = reader.load(directory, **options).numpy()
    assert any(f"Pixels in {copy}/pixels at byte 4608 did not match" in text for text in said)
    assert np.array_equal(images, whole)
    assert (copy / "pixels").read_bytes() == content
    # Of a damaged set, a damaged copy cannot be mended; nor can a record of the copy itself.
    put(copy / "pixels", flipped)
    (shard,) = directory.glob("*.tfrecord*")
    original = shard.read_bytes()
    shard.write_bytes(original[:-9] + b"x" + original[-8:])
    said.clear()
    list(reader.load(directory, **options).numpy())
    assert any("decoded again" in text for text in said)
    (slim,) = copy.glob("*.tfrecord*")
    slim.write_bytes(slim.read_bytes()[:-9] + b"xxxxxxxxx")
    with pytest.raises(DamageError, match=f"{slim} at byte .*run 'shardmill cache --clear'"):
        list(reader.load(directory, **options).numpy())


def test_no_room_is_said_before_anything_is_decoded(make_set: Any, tmp_path: Path) -> None:
    directory = make_set({"train": (9, 12)})
    options = {"batch_size": 2, "image_size": 8, "cache_dir": tmp_path / "c", "cache_limit": 10_000}
    with pytest.raises(UsageError, match=r"a copy of decoded images on disk needs 0.0[67]"):
        reader.load(directory, cache="disk", cache_stage="decoded", **options)
    assert not list((tmp_path / "c").rglob("*tfrecord*"))


def test_damage_is_reported_and_leaves_nothing(make_set: Any, tmp_path: Path) -> None:
    directory = make_set({"train": (9, 12)})
    shard = directory / load_manifest(directory).splits["train"].shards[1].file
    content = bytearray(shard.read_bytes())
    content[500] ^= 1
    shard.write_bytes(content)
    for cache in ("memory", "disk"):
        with pytest.raises(DamageError, match=f"does not match its checksum.* {shard} at byte"):
            reader.load(
                directory,
                batch_size=2,
                image_size=8,
                cache=cache,
                cache_stage="decoded",
                cache_dir=tmp_path / "cache",
            )
    assert not [path for path in (tmp_path / "cache").rglob("*") if "train" in path.name]


def test_an_index_with_wrong_sizes_is_reported(write_records: Any, make_set: Any) -> None:
    (_, payload), *_ = read_records(next(make_set({"train": (1,)}).glob("*train.tfrecord*")))
    import pyarrow as pa

    image = Feature("image", "image", (-1, -1, 3), "jpeg")
    directory = write_records(
        Schema("image", (Feature("id", "text"), image)),
        {"train": [({"id": "a", "image": decode_example(payload)["image"]}, {"w": 1})]},
        columns=(pa.field("w", pa.int32()),),
        name="photographs",
    )
    options = {"batch_size": 1, "image_size": 8, "cache": "memory", "cache_stage": "decoded"}
    with pytest.raises(DamageError, match=r"no column height and no column width"):
        reader.load(directory, **options)
    directory = write_records(
        Schema("image", (Feature("id", "text"), image)),
        {
            "train": [
                ({"id": "a", "image": decode_example(payload)["image"]}, {"width": 3, "height": 2})
            ]
        },
        columns=(pa.field("width", pa.int32()), pa.field("height", pa.int32())),
        name="more",
    )
    with pytest.raises(DamageError, match=r"Images are larger than the index says"):
        reader.load(directory, **options)


def test_a_image_that_is_none_is_reported(write_records: Any) -> None:
    import pyarrow as pa

    image = Feature("image", "image", (-1, -1, 3), "jpeg")
    sides = {"width": 3, "height": 3}
    directory = write_records(
        Schema("image", (Feature("id", "text"), image)),
        {"train": [({"id": "mine", "image": b"no jpeg"}, sides)]},
        columns=tuple(pa.field(name, pa.int32()) for name in sides),
    )
    with pytest.raises(DamageError, match=r"Cannot decode the image .*mine"):
        reader.load(directory, batch_size=1, image_size=8, cache="memory", cache_stage="decoded")


def test_pixels_of_odd_sides_are_whole(make_set: Any, tmp_path: Path) -> None:
    directory = make_set({"train": (6,)}, sizes=((1, 1), (1, 9), (7, 1)), encoding="png")
    stream = reader.load(
        directory, batch_size=1, cache="memory", cache_stage="decoded", shuffle="off", epochs=1
    )
    shapes = [x.shape[1:3] for x, _ in stream.dataset.as_numpy_iterator()]
    assert shapes == [(1, 1), (1, 9), (7, 1)] * 2
    assert all(np.ptp(x[0, ..., 0]) == 0 for x, _ in stream.dataset.as_numpy_iterator())


@pytest.mark.parametrize(
    "file", ["pixels", *proofs("index/train.arrow", "manifest.json"), "*tfrecord*"]
)
@pytest.mark.parametrize("lost", [False, *proofs(True)])
def test_what_was_cut_or_lost_is_made_again(
    make_set: Any, tmp_path: Path, batches: Any, same: Any, file: str, lost: bool
) -> None:
    directory = make_set({"train": (9, 12)}, sizes=SIZES)
    options: dict[str, Any] = {"batch_size": 6, "count": 4, "cache_dir": tmp_path}
    options |= {"cache": "disk", "cache_stage": "decoded"}
    first, _ = batches(directory, **options)
    path = next(decoded_set(tmp_path).glob(file))
    content = path.read_bytes()
    if lost:
        path.unlink()
    else:
        put(path, content[: len(content) // 2])
    again, _ = batches(directory, **options)
    assert same(first, again) and path.read_bytes() == content
