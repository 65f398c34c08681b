"""Sets at a URL, in a storage that fails now and then."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import reader
from foundation.storage import Url
from reader.cache import checked_records
from reader.cache.checked_records import CheckedRecordReader
from reader.damage import SkippedRecords
from reader.records.split_index import WholeIndex
from shard_format import (
    DamageError,
    ShardSetError,
    UsageError,
    load_manifest,
    open_index,
    read_records,
)
from shard_format.naming import index_file


@pytest.mark.parametrize(
    "options",
    [
        {"cache": "off"},
        {"cache": "memory"},
        {"cache": "disk", "cache_limit": 70_000},
        {"cache": "disk", "cache_stage": "decoded"},
        *(
            pytest.param(options, marks=pytest.mark.proof)
            for options in [
                {"cache": "disk"},
                {"cache": "auto"},
                {"cache": "memory", "cache_stage": "decoded"},
                {"cache": "disk", "shuffle": "full"},
            ]
        ),
    ],
)
def test_the_batches_are_the_same(
    tiny: Path, tmp_path: Path, remote: Any, batches: Any, same: Any, options: dict[str, Any]
) -> None:
    plain, _ = batches(tiny, cache="off", shuffle=options.get("shuffle", "window"))
    url, _ = remote(tiny)
    fetched, _ = batches(url, cache_dir=tmp_path, **options)
    assert same(plain, fetched)


def test_a_cut_transfer_is_seen_and_made_again(
    tiny: Path, tmp_path: Path, remote: Any, batches: Any, same: Any
) -> None:
    url, files = remote(tiny)
    file = load_manifest(tiny).splits["train"].shards[0].file
    files.cuts = {"train.arrow": 1, file: 2}
    fetched, stream = batches(url, cache="disk", cache_dir=tmp_path)
    assert stream.copies[0].error is None
    assert next(tmp_path.glob(f"*/{file}")).read_bytes() == (tiny / file).read_bytes()
    assert same(fetched, batches(tiny, cache="off")[0])


def test_what_is_copied_is_not_asked_for_again(
    tiny: Path, tmp_path: Path, remote: Any, batches: Any
) -> None:
    url, files = remote(tiny)
    batches(url, cache="disk", cache_dir=tmp_path)
    files.opened.clear()
    _, stream = batches(url, cache="disk", cache_dir=tmp_path)
    assert set(files.opened) == {"manifest.json"} and stream.copies == ()


def test_a_file_that_stays_cut_is_damage(tiny: Path, tmp_path: Path, remote: Any) -> None:
    url, files = remote(tiny)
    files.cuts = {"train.arrow": 9}
    with pytest.raises(
        DamageError, match=r"SHA-256 differs from the manifest in flaky://bucket/set/index/tr"
    ):
        reader.load(url, batch_size=4, image_size=8, cache_dir=tmp_path)
    assert not list(tmp_path.rglob("train.arrow*"))


def test_what_cannot_be_reached_is_reported(tiny: Path, tmp_path: Path, remote: Any) -> None:
    url, files = remote(tiny)
    files.dies = True
    with pytest.raises(ShardSetError, match=r"Cannot read .*Could not connect"):
        reader.load(url, batch_size=4, image_size=8, cache_dir=tmp_path)
    files.dies = False
    stream = reader.load(url, batch_size=4, image_size=8, cache="off", cache_dir=tmp_path)
    files.dies = True
    with pytest.raises(tf.errors.UnknownError, match=r"Cannot read .*Could not connect"):
        next(iter(stream.dataset))
    url, files = remote(tiny.parent)
    with pytest.raises(ShardSetError, match=r"flaky://bucket/set is not a shard set"):
        reader.load(url, batch_size=4, image_size=8, cache_dir=tmp_path)


def test_the_small_files_need_room(tiny: Path, tmp_path: Path, remote: Any) -> None:
    url, _ = remote(tiny)
    with pytest.raises(UsageError, match=r"the index of a set at a URL needs .* cache_limit"):
        reader.load(url, batch_size=4, image_size=8, cache_dir=tmp_path, cache_limit=1000)


def test_any_records_in_any_order(tiny: Path, remote: Any, tmp_path: Path) -> None:
    """Repeated ones too, and those of a shard that is copied."""
    url, _ = remote(tiny)
    split = load_manifest(tiny).splits["train"]
    stored = [one for shard in split.shards for _, one in read_records(tiny / shard.file)]
    index = WholeIndex(open_index(tiny / index_file("train")))
    copies = [tmp_path / shard.file for shard in split.shards]
    copies[0].write_bytes((tiny / split.shards[0].file).read_bytes())
    record_reader = CheckedRecordReader(
        Url(url), split, index, tiny / index_file("train"), copies, SkippedRecords()
    )
    generator = np.random.default_rng(0)
    for count in (1, 2, 30, 200):
        numbers = generator.integers(0, split.records, count)
        with mock.patch.object(checked_records, "is_whole", wraps=checked_records.is_whole) as asks:
            read = record_reader.read(numbers)
        assert list(map(bytes, read)) == [stored[number] for number in numbers]
        asked = [call.args[0] for call in asks.call_args_list]
        assert len(asked) == len(set(asked))  # a set may have a shard for each record of a read
    assert list(map(bytes, record_reader.read(np.arange(split.records)))) == stored


def test_a_damaged_record_is_named(make_set: Any, remote: Any, tmp_path: Path) -> None:
    directory = make_set({"train": (5,)})
    shard = directory / load_manifest(directory).splits["train"].shards[0].file
    content = bytearray(shard.read_bytes())
    content[500] ^= 1
    shard.write_bytes(content)
    url, _ = remote(directory)
    stream = reader.load(url, batch_size=5, image_size=8, cache="off", cache_dir=tmp_path)
    with pytest.raises(tf.errors.UnknownError, match=f"flaky://bucket/set/{shard.name} at byte 0"):
        next(iter(stream.dataset))


def test_a_file_url_is_a_directory(tiny: Path, batches: Any, same: Any) -> None:
    assert same(batches(tiny.as_uri(), cache="off")[0], batches(tiny, cache="off")[0])


@pytest.mark.parametrize(
    "shuffle", ["window", *(pytest.param(one, marks=pytest.mark.proof) for one in ("full", "off"))]
)
def test_a_worker_requests_its_own_bytes_alone(
    tiny: Path, tmp_path: Path, remote: Any, small_windows: None, shuffle: str
) -> None:
    """Each record once in an epoch, whichever worker needs it, also in the parts it begins with."""
    url, files = remote(tiny)
    requested = []
    for worker in (0, 1):
        stream = reader.load(
            url,
            batch_size=10,
            image_size=8,
            shuffle=shuffle,
            epochs=1,
            worker=(worker, 2),
            cache="off",
            cache_dir=tmp_path,
        )
        files.ranges.clear()
        assert len(list(stream.dataset)) == stream.steps_per_epoch == 11
        requested += files.ranges
    split = load_manifest(tiny).splits["train"]
    assert sum(size for _, _, size in requested) == split.bytes
    ends: dict[str, int] = {}
    for name, offset, size in sorted(requested):
        assert offset == ends.get(name, 0)  # no byte twice, and none left out
        ends[name] = offset + size
    assert ends == {shard.file: shard.bytes for shard in split.shards}


def test_the_first_batch_waits_for_a_part_of_its_window(
    tiny: Path, tmp_path: Path, remote: Any, batches: Any, same: Any
) -> None:
    """The window is the whole split here; the order is that of a set on disk."""
    url, _ = remote(tiny)
    with mock.patch("reader.opening._FIRST_BYTES", 1):
        reads: list[int] = []
        original = CheckedRecordReader.read

        def counted(self: Any, numbers: Any) -> Any:
            reads.append(len(numbers))
            return original(self, numbers)

        with mock.patch.object(CheckedRecordReader, "read", counted):
            stream = reader.load(
                url, batch_size=10, image_size=8, epochs=1, cache="off", cache_dir=tmp_path
            )
            first = [image.numpy() for image, _ in stream.dataset]
    assert sorted(reads) == [10, 10, 20, 30, 40]  # some are read at the same time
    local = reader.load(tiny, batch_size=10, image_size=8, epochs=1, cache="off")
    assert same([first], [[image.numpy() for image, _ in local.dataset]])


def test_records_are_read_by_number(tiny: Path, remote: Any) -> None:
    url, files = remote(tiny)
    local, far = reader.random_access(tiny), pickle.loads(pickle.dumps(reader.random_access(url)))
    files.ranges.clear()
    assert [one["id"] for one in far.__getitems__([3, -1])] == [local[3]["id"], local[-1]["id"]]
    assert len(files.ranges) == 2
    files.dies = True
    with pytest.raises(ShardSetError, match=r"Cannot read flaky://bucket/set/.*not connect"):
        far[0]


def test_the_index_of_a_set_at_a_url_is_exported(tiny: Path, remote: Any, tmp_path: Path) -> None:
    url, _ = remote(tiny)
    there = reader.export_index(url, out=tmp_path / "there").files["train"]
    here = reader.export_index(tiny, out=tmp_path / "here").files["train"]
    assert [path.read_bytes() for path in there] == [path.read_bytes() for path in here]


@pytest.mark.parametrize(
    "steps", [7, *(pytest.param(steps, marks=pytest.mark.proof) for steps in (0, 1, 11, 14))]
)
def test_a_stream_resumes_where_it_was(
    tiny: Path, tmp_path: Path, remote: Any, same: Any, small_windows: None, steps: int
) -> None:
    url, _ = remote(tiny)
    options = {"batch_size": 10, "image_size": 8, "epochs": 2, "augment": "standard"}
    local = reader.load(tiny, cache="off", **options)
    whole = [image.numpy() for image, _ in local.dataset]
    options |= {"cache": "off", "cache_dir": tmp_path}
    state = reader.load(url, **options).state(steps)
    rest = reader.load(url, state=state, **options)
    assert same([whole[steps:]], [[image.numpy() for image, _ in rest.dataset]])


def test_a_copy_that_was_cut_is_not_read(
    tiny: Path, tmp_path: Path, remote: Any, batches: Any, same: Any
) -> None:
    url, _ = remote(tiny)
    plain, _ = batches(url, cache="disk", cache_dir=tmp_path)
    copy = next(tmp_path.glob("*/*tfrecord*"))
    copy.write_bytes(copy.read_bytes()[:500])
    assert same(plain, batches(url, cache="off", cache_dir=tmp_path)[0])


@pytest.mark.proof
@pytest.mark.parametrize("cache", ["off", "memory"])
def test_what_stages_take_is_measured_where_the_set_is(
    tiny: Path, tmp_path: Path, remote: Any, cache: str
) -> None:
    url, _ = remote(tiny)
    stream = reader.load(url, batch_size=4, image_size=8, cache=cache, cache_dir=tmp_path)
    times = reader.measure_stages(stream, 0.05)
    assert times.chain.seconds > 0 and times.storage.cold_seconds is None
