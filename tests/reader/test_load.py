"""What a user can get wrong, and what a set on disk can have wrong with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import reader
from shard_format import DamageError, ShardSetError, UsageError, load_manifest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tran"}, "Unknown split 'tran' in .*mean 'train'.* Choices: train, test"),
        (
            {"augment": "standart"},
            "Unknown augment 'standart' .*'standard'.* none, standard, strong, center_crop",
        ),
        (
            {"augment": 3},
            "3 is not a transform in augment of reader.load. Pass names",
        ),
        ({"shuffle": "fill"}, "Unknown shuffle 'fill' .*'full'.* Choices: window, full, off"),
        ({"cache": "ram"}, "Unknown cache 'ram' .* Choices: auto, off, memory, disk"),
        ({"dtype": "float16"}, "'float16' in reader.load. Did you mean 'float32'"),
        (
            {"normalize": "zscor"},
            "Unknown normalize 'zscor' .*'zscore'.* Choices: none, zscore, minmax",
        ),
        ({"batch_size": 0}, "batch_size is 0 in reader.load. Pass an integer of at least 1"),
        ({"batch_size": True}, "batch_size is True in reader.load. Pass an integer of at least 1"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"seed": -1}, r"seed is -1 in reader.load. Pass an integer in \[0, 9223372036854775807\]"),
        ({"seed": 1 << 63}, "seed is 9223372036854775808"),
        ({"epochs": 0}, "epochs is 0 .* Pass an integer in"),
        ({"image_size": 0}, r"image_size is 0 in reader.load. Pass an integer in \[1, 16384\]"),
        (
            {"image_size": None, "augment": "standard"},
            "augment='standard' crops images, but image_size is None",
        ),
        ({"remainder": "keep"}, "remainder='keep' does not work with epochs=None .* Pass epochs=1"),
        (
            {"remainder": "keep", "epochs": 1, "worker": (0, 2)},
            r"does not work with worker=\(0, 2\) in reader.load: .* Pass remainder='pad'",
        ),
        (
            {"remainder": "padded"},
            "Unknown remainder 'padded' .*'pad'.* Choices: drop, keep, pad, wrap",
        ),
        ({"worker": 1}, r"worker is 1 .* Pass a pair \(index, count\)"),
        ({"worker": (2, 2)}, r"the index in worker is 2 .* in \[0, 1\]"),
        ({"worker": (0, 3), "batch_size": 6}, r"3 workers do not divide the 64 .*Pass streams=66"),
        ({"worker": (0, 8)}, r"batch_size=4 is not a multiple of the 8 workers .* pass 8"),
        ({"streams": 0}, "streams is 0 .* Pass an integer in"),
        ({"sample": "balance"}, "Unknown column in sample 'balance' .*'balanced'"),
        ({"sample": 3}, 'sample is 3 .* Pass "balanced", the weights of classes'),
        ({"sample": "balanced", "shuffle": "off"}, "order of its own, not that of shuffle='off'"),
        ({"sample": {"class1": -1}}, "The weight of 'class1' in sample is -1 .* at least 0"),
        ({"sample": {"klass1": 1}}, "Unknown class in sample 'klass1' .*'class1'"),
        ({"sample": {"class1": 0}}, "The weights in sample sum to 0.0"),
        ({"threads": 0}, r"threads is 0 .* Pass an integer in \[1, 4096\]"),
        ({"threads": 10**6}, r"threads is 1000000 .* Pass an integer in \[1, 4096\]"),
        (
            {"ram_budget": 1 << 63},
            "ram_budget is 9223372036854775808 .* Pass an integer in",
        ),
        ({"state": {}}, "The state has format None, not 1"),
        ({"batch_size": 111}, r"batch_size=111 exceeds the 110 records of 'train'"),
    ],
)
def test_wrong_options(tiny: Path, options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"batch_size": 4, "image_size": 8, **options}
    with pytest.raises(UsageError, match=message):
        reader.load(tiny, **arguments)


@pytest.mark.parametrize("batch_size", [111, (1 << 63) - 1])
@pytest.mark.timeout(120)
def test_a_batch_larger_than_the_split_may_be_partial(tiny: Path, batch_size: int) -> None:
    stream = reader.load(tiny, batch_size=batch_size, image_size=8, epochs=1)
    assert [len(labels) for _, labels in stream.dataset] == [110]


def test_sizes_that_differ_are_not_batched(make_set: Any) -> None:
    directory = make_set({"train": (4,)}, sizes=((24, 32), (16, 40)))
    message = "Images differ in size, .*: heights of 16 to 24 and widths of 32 to 40 in .*arrow"
    with pytest.raises(UsageError, match=message):
        reader.load(directory, batch_size=2)


@pytest.mark.parametrize("cache", ["off", "disk"])
def test_a_relative_path_is_that_of_the_call(
    make_set: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    """Shards are opened when a batch is asked for; a program may have changed its directory."""
    directory = make_set({"train": (10,)})
    monkeypatch.chdir(directory.parent)
    options: dict[str, Any] = {"batch_size": 5, "image_size": 8, "cache": cache, "epochs": 1}
    stream = reader.load(directory.name, **options, cache_dir="copies")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(list(stream.dataset)) == 2
    assert stream.info.directory == directory


def test_no_shard_set(tmp_path: Path) -> None:
    with pytest.raises(ShardSetError, match="There is no directory"):
        reader.load(tmp_path / "nothing", batch_size=1)
    with pytest.raises(ShardSetError, match=r"is not a shard set: it has no manifest\.json"):
        reader.load(tmp_path, batch_size=1)


def test_empty_split(make_set: Any) -> None:
    directory = make_set({"train": (3,), "test": (0,)})
    with pytest.raises(ShardSetError, match=r"Split 'test' of .* has no records.* \(train\)"):
        reader.load(directory, split="test", batch_size=1, image_size=8)


def test_record_type_and_encoding_this_version_does_not_know(tmp_path: Path, make_set: Any) -> None:
    directory = make_set({"train": (3,)}, record_type="audio")
    with pytest.raises(
        ShardSetError, match=r"unknown type 'audio'.* records of type image, text, tokens, packed"
    ):
        reader.load(directory, batch_size=1, image_size=8)
    shutil.rmtree(directory)
    directory = make_set({"train": (3,)}, encoding="jxl")
    with pytest.raises(
        ShardSetError,
        match=r"'image' has the unknown encoding 'jxl' .* decodes jpeg, png, webp, raw",
    ):
        reader.load(directory, batch_size=1, image_size=8)


@pytest.fixture
def shard(make_set: Any) -> Path:
    """The second of three shards of ten records each, in a set that may be spoilt."""
    directory: Path = make_set({"train": (10, 10, 10)})
    return directory / load_manifest(directory).splits["train"].shards[1].file


def test_missing_shard(shard: Path) -> None:
    shard.unlink()
    with pytest.raises(ShardSetError, match=f"No shard file {shard}"):
        reader.load(shard.parent, batch_size=5, image_size=8)


def test_truncated_shard(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DamageError, match=f"{shard} has .* bytes, but .* in the manifest"):
        reader.load(shard.parent, batch_size=5, image_size=8)


def test_missing_index(shard: Path) -> None:
    (shard.parent / "index" / "train.arrow").unlink()
    with pytest.raises(ShardSetError, match=r"The index .* is missing"):
        reader.load(shard.parent, batch_size=5, image_size=8)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def test_flipped_bit_is_named_where_all_bytes_are_read_first(shard: Path) -> None:
    flip_a_bit(shard)
    with pytest.raises(DamageError, match=f"does not match its checksum in {shard} at byte"):
        reader.load(shard.parent, batch_size=5, image_size=8, cache="memory")


def test_flipped_bit_is_caught_while_streaming(shard: Path) -> None:
    flip_a_bit(shard)
    stream = reader.load(shard.parent, batch_size=5, image_size=8, cache="off", epochs=1)
    with pytest.raises(
        tf.errors.UnknownError,
        match=f"{shard} at byte .* \\(record 'r.*shardmill verify {shard.parent}",
    ):
        list(stream.dataset)


def test_measure_counts_what_it_received(tiny: Path) -> None:
    stream = reader.load(tiny, split="test", batch_size=8, image_size=8, epochs=1)
    seen: list[int] = []
    rate = reader.measure(stream, 60, seen.append)
    assert seen == [8, 8, 5]
    assert (rate.records, rate.batches) == (13, 2)
    assert rate.records_per_second == pytest.approx(13 / rate.seconds)
    stored = stream.info.stored_bytes / 21 / 1e6
    assert rate.megabytes_per_second == pytest.approx(rate.records_per_second * stored)
    assert rate.first_batch_seconds > 0
    with pytest.raises(UsageError, match="seconds is 0"):
        reader.measure(stream, 0)


def test_measure_stops_in_time(tiny: Path) -> None:
    rate = reader.measure(reader.load(tiny, batch_size=8, image_size=8), 0.2)
    assert 0.2 <= rate.seconds < 2 and rate.batches > 1
