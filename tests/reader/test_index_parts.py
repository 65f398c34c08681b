"""A set whose index is in parts is read as the same records with an index in one file."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import reader
from shard_format import (
    DamageError,
    ShardSetError,
    index_parts,
    load_manifest,
    naming,
    open_index,
)
from shard_format.arrow_layout import blocks_of, column_places, value_buffers

IMAGES = {f"{'abc'[n % 3]}/{n}": n for n in range(90)}
OPTIONS = {"batch_size": 6, "image_size": 8, "seed": 1, "streams": 2}


@pytest.fixture
def pair(write_corpus, begin_set, monkeypatch, tmp_path):
    source = write_corpus("images", IMAGES)
    values = {"split": "train=1", "resize": "none", "num_shards": 12}
    begin_set(source, "small", **values)
    monkeypatch.setattr(index_parts, "PART_ROWS", 20)
    begin_set(source, "large", **values)
    assert len(load_manifest(tmp_path / "large").splits["train"].index) == 6
    return tmp_path / "small", tmp_path / "large"


def batches(root, steps=None, state=None, **options):
    stream = reader.load(root, epochs=2, state=state, **(OPTIONS | options))
    taken = stream.dataset if steps is None else stream.dataset.take(steps)
    return [(images.numpy(), labels.numpy()) for images, labels in taken], stream


def same(one, two):
    assert len(one) == len(two)
    for (images, labels), (others, those) in zip(one, two, strict=True):
        assert np.array_equal(images, others) and np.array_equal(labels, those)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": "full"},
        {"shuffle": "off"},
        {"augment": "standard"},
        {"sample": "balanced"},
        {"cache": "memory"},
        {"cache": "off", "on_corrupt": "skip"},
        {"cache": "disk"},
        {"cache": "disk", "cache_stage": "decoded"},
        {"worker": (1, 2)},
    ],
)
def test_batches_are_those_of_one_file(pair, options, tmp_path):
    small, large = pair
    options = {"cache_dir": tmp_path / "cache"} | options
    same(batches(small, **options)[0], batches(large, **options)[0])


def test_a_state_goes_on_anywhere(pair):
    whole, stream = batches(pair[1])
    for step in (1, 13, 27):
        same(batches(pair[1], state=stream.state(step))[0], whole[step:])


def test_the_graph_of_a_service_has_the_columns_of_all_parts(pair):
    """What is sent to workers of a service reads the index without Python."""
    from reader.graph.columns import IndexColumns
    from shard_format import open_split_index

    columns = []
    for root in pair:
        manifest = load_manifest(root)
        files = [root / part.file for part in manifest.index_parts("train")]
        index = open_split_index(root, manifest, "train")
        numbers = np.array([88, 0, 19, 20, 20, 47, 3], np.int64)
        graph = IndexColumns(files, ("offset", "shard"))
        for name in ("offset", "shard"):
            looked_up = graph.column(name, numbers).numpy()
            assert looked_up.tolist() == index[name].take(numbers).to_pylist()
            columns.append(looked_up.tolist())
    assert columns[:2] == columns[2:]


def test_random_access_and_exports(pair):
    small, large = (reader.random_access(root) for root in pair)
    assert len(small) == len(large) == len(IMAGES)
    for row in (0, 25, 89):
        assert small[row]["id"] == large[row]["id"]
    exported = [reader.export_index(root).files["train"] for root in pair]
    assert [one.read_bytes() for one in exported[0]] == [one.read_bytes() for one in exported[1]]


def test_nothing_is_opened_that_no_record_needs(pair):
    """The parts of other records may even be missing."""
    _, large = pair
    for number in range(1, 6):
        (large / naming.index_part_file("train", number)).unlink()
    assert reader.load(large, **OPTIONS | {"cache": "off"}).info.records == len(IMAGES)
    rows = reader.random_access(large)
    assert rows[0]["id"] and rows[13]["id"]
    with pytest.raises(ShardSetError, match=r"train-00005\.arrow"):
        rows[89]


def test_a_part_that_is_damaged_is_named(pair):
    _, large = pair
    file = large / naming.index_part_file("train", 2)
    whole = file.read_bytes()
    for content in (whole[:-7], b"", whole[:-300] + bytes(300), whole[:100]):
        file.write_bytes(content)
        with pytest.raises((DamageError, ShardSetError), match=r"train-00002\.arrow"):
            for _ in reader.load(large, epochs=1, **OPTIONS).numpy():
                pass
    file.unlink()
    with pytest.raises(ShardSetError, match=r"train-00002\.arrow"):
        for _ in reader.load(large, epochs=1, **OPTIONS).numpy():
            pass


def test_any_damage_to_the_layout_of_a_file_is_a_message(pair):
    """Metadata with flipped bits is refused, or leads to places that a checksum refuses later."""
    _, large = pair
    data = (large / naming.index_part_file("train", 0)).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(400):
        changed = bytearray(data)
        changed[int(random.integers(len(data) - 2000, len(data)))] ^= 1 << int(random.integers(8))
        with contextlib.suppress(ValueError):
            blocks = blocks_of(bytes(changed))
            places = np.stack(blocks, axis=1).tolist()
            for offset, size in (one for one in places if 0 <= min(one) and max(one) < len(data)):
                column_places(bytes(changed[offset : offset + size]), [3, 5])


def test_places_are_those_of_arrow(pair):
    import pyarrow as pa

    _, large = pair
    path = large / naming.index_part_file("train", 1)
    data, table = path.read_bytes(), open_index(path)
    names = ("shard", "offset", "length", "key", "label", "width", "pixel_count")
    buffers = value_buffers(table.schema, names)
    blocks, first = blocks_of(data), 0
    for offset, size in zip(blocks.offsets.tolist(), blocks.head_bytes.tolist(), strict=True):
        rows, places = column_places(data[offset : offset + size], buffers)
        for name, place in zip(names, places, strict=True):
            width = table.schema.field(name).type.bit_width // 8
            values = np.frombuffer(data, f"<i{width}", rows, offset + place)
            expected = table[name].slice(first, rows).cast(pa.int64(), safe=False)
            assert values.tolist() == expected.to_pylist()
        first += rows
    assert first == len(table)
