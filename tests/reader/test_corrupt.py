"""Damage is named, or costs exactly the records that it is in."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import reader
from reader.cache.checked_records import CheckedRecordReader
from reader.damage import SkippedRecords
from reader.records.split_index import WholeIndex
from shard_format import (
    DamageError,
    Feature,
    Schema,
    ShardSetError,
    UsageError,
    load_manifest,
    open_index,
    read_records,
)
from shard_format.naming import index_file
from tests.fixtures.proofs import examples, proofs
from tests.fixtures.sets import write_shard_set
from tests.reader.conftest import write_set

proof = pytest.mark.proof
RECORDS = 40
OPTIONS: dict[str, Any] = {"batch_size": 4, "epochs": 1, "cache": "off"}


class Frame(NamedTuple):
    """A record in its shard."""

    path: Path
    offset: int
    length: int


def write_text_set(directory: Path, records: int) -> None:
    features = (
        Feature("id", "text"),
        Feature("text", "text"),
        Feature("label", "class_label", class_names=tuple(f"class{n}" for n in range(RECORDS))),
    )
    rows = [
        ({"id": f"r{n}", "text": f"{records} text {n}", "label": n}, {"record_id": f"r{n}"})
        for n in range(records)
    ]
    cut = records * 5 // 8
    write_shard_set(directory, Schema("text", features), {"train": [rows[:cut], rows[cut:]]})


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A set of images and one of texts, with the label = the record number; read only."""
    root = tmp_path_factory.mktemp("intact")
    write_text_set(root / "text", RECORDS)
    write_set(root / "image", {"train": (25, 15)})
    return {"text": root / "text", "image": root / "image"}


@pytest.fixture
def damaged(intact: dict[str, Path], tmp_path: Path) -> Any:
    """A copy of a set, to be damaged."""
    return lambda kind: Path(shutil.copytree(intact[kind], tmp_path / "set"))


def frames(directory: Path) -> list[Frame]:
    index = open_index(directory / index_file("train"))
    shards = sorted(directory.glob("*.tfrecord-*"))
    rows = zip(*(index[name].to_pylist() for name in ("shard", "offset", "length")), strict=True)
    return [Frame(shards[shard], offset, length) for shard, offset, length in rows]


def flip(path: Path, byte: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(byte)
        old = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([old ^ 1 << bit]))


def numbers(stream: reader.Stream, count: int | None = None) -> list[list[int]]:
    """The labels of every batch, which number the records."""
    dataset = stream.dataset if count is None else stream.dataset.take(count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [batch[1].numpy().tolist() for batch in dataset]


def texts(stream: reader.Stream) -> list[list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [[text.decode() for text in batch] for batch, _ in stream.numpy()]


def without(batches: list[list[int]], lost: set[int]) -> list[list[int]]:
    return [[number for number in batch if number not in lost] for batch in batches]


def load(directory: Path, kind: str, **options: Any) -> reader.Stream:
    sized = {"image_size": 8} if kind == "image" else {}
    return reader.load(directory, **{**OPTIONS, **sized, **options})


def test_any_flipped_bits_cost_their_records(intact: dict[str, Path], tmp_path: Path) -> None:
    """Of what is read by number, any numbers of records at a time."""
    directory = tmp_path / "set"
    shutil.copytree(intact["text"], directory)
    split, places = load_manifest(directory).splits["train"], frames(directory)
    stored = [one for shard in split.shards for _, one in read_records(directory / shard.file)]
    index = WholeIndex(open_index(directory / index_file("train")))

    @given(
        damage=st.lists(
            st.tuples(st.integers(0, RECORDS - 1), st.integers(0, 10**6), st.integers(0, 7)),
            min_size=1,
            max_size=5,
            unique_by=lambda one: one[0],
        ),
        asked=st.lists(st.integers(0, RECORDS - 1), min_size=1),
    )
    @settings(max_examples=examples(60), deadline=None)
    def flipped(damage: list[tuple[int, int, int]], asked: list[int]) -> None:
        skipped = SkippedRecords()
        checked = CheckedRecordReader(directory, split, index, tmp_path, [], skipped)
        lost = {number for number, _, _ in damage}
        for number, byte, bit in damage:
            flip(places[number].path, places[number].offset + byte % places[number].length, bit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            examples, sources = checked.read_skipping(np.array(asked))
        kept = [number not in lost for number in asked]
        assert (sources == asked).tolist() == kept
        assert list(map(bytes, examples)) == [stored[number] for number in sources]
        assert len(skipped) == len(lost & set(asked))
        if not all(kept):
            with pytest.raises(DamageError, match=r"at byte \d+ \(record 'r\d+'\)"):
                checked.read(np.array(asked))
        for number, byte, bit in damage:
            flip(places[number].path, places[number].offset + byte % places[number].length, bit)

    flipped()


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("shuffle", ["window", *proofs("full", "off")])
@pytest.mark.parametrize("kind", ["text", *proofs("image")])
def test_a_flipped_bit_costs_its_record(
    kind: str, shuffle: str, intact: dict[str, Path], damaged: Any
) -> None:
    """In any order; also behind a state, for any number of workers."""
    number = 29
    directory = damaged(kind)
    frame = frames(directory)[number]
    flip(frame.path, frame.offset + {"window": 3, "full": 60, "off": frame.length - 2}[shuffle])
    # Epochs are cut to whole batches; the second one resumes in its middle, as one of two workers.
    whole = numbers(load(intact[kind], kind, shuffle=shuffle, epochs=2))
    options = {"shuffle": shuffle, "epochs": 2, "on_corrupt": "skip"}
    stream = load(directory, kind, **options)
    assert numbers(stream) == without(whole, {number})
    assert stream.skipped == 1
    state = stream.state(13)
    shares = [numbers(load(directory, kind, **options, worker=(i, 2), state=state)) for i in (0, 1)]
    for share, worker in zip(shares, (0, 1), strict=True):
        assert share == without([batch[worker::2] for batch in whole[13:]], {number})


@pytest.mark.parametrize("kind", ["text", pytest.param("image", marks=proof)])
@pytest.mark.parametrize("lost", ["truncated", "missing"])
def test_a_cut_shard_costs_what_is_cut(kind: str, lost: str, damaged: Any) -> None:
    directory = damaged(kind)
    frame = frames(directory)[30]
    first = 30
    if lost == "missing":
        frame.path.unlink()
        first = 25
        with pytest.raises(ShardSetError, match=f"No shard file {frame.path}"):
            load(directory, kind)
    else:
        with frame.path.open("r+b") as file:
            file.truncate(frame.offset + frame.length - 1)
        with pytest.raises(DamageError, match=f"{frame.path} has .* bytes, but"):
            load(directory, kind)
    stream = load(directory, kind, shuffle="off", on_corrupt="skip")
    whole = [list(range(begin, begin + 4)) for begin in range(0, RECORDS, 4)]
    assert numbers(stream) == without(whole, set(range(first, RECORDS)))
    assert stream.skipped == RECORDS - first


@pytest.mark.parametrize("kind", ["text", pytest.param("image", marks=proof)])
def test_damage_is_named(kind: str, damaged: Any) -> None:
    """By the data set in TensorFlow's exception, by all else in one of shardmill."""
    directory = damaged(kind)
    frame = frames(directory)[27]
    flip(frame.path, frame.offset + 40)
    message = (
        rf"A record does not match its checksum in {frame.path} at byte {frame.offset} "
        rf"\(record 'r27'\)\. Run 'shardmill verify {directory}'"
    )
    stream = load(directory, kind, shuffle="full")
    with pytest.raises(tf.errors.UnknownError, match=message):
        list(stream.dataset)
    with pytest.raises(DamageError, match=message):
        list(stream.numpy())
    with pytest.raises(DamageError, match=message):
        reader.measure(load(directory, kind, epochs=None), 60)
    with pytest.raises(DamageError, match=message):
        load(directory, kind, cache="memory")
    with pytest.raises(DamageError, match=rf"{frame.path} at byte {frame.offset} \(record 'r27'"):
        reader.random_access(directory)[27]
    skipping = load(directory, kind, on_corrupt="skip")
    with pytest.warns(RuntimeWarning, match=rf"Skipped .* {frame.path} at byte .* 'r27'"):
        assert sum(len(labels) for _, labels in skipping.numpy()) == RECORDS - 1


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param("image", {"cache": "memory"}, marks=proof),
        ("text", {"cache": "memory"}),
        ("image", {"augment": "standard,mixup"}),
        ("text", {"cache": "disk"}),
        pytest.param("image", {"cache": "memory", "cache_stage": "decoded"}, marks=proof),
        pytest.param("image", {"cache": "disk", "cache_stage": "decoded"}, marks=proof),
        pytest.param("image", {"sample": "balanced"}, marks=proof),
    ],
)
def test_skipping_everywhere(
    kind: str, options: dict[str, Any], damaged: Any, intact: dict[str, Path], tmp_path: Path
) -> None:
    directory = damaged(kind)
    frame = frames(directory)[27]
    flip(frame.path, frame.offset + 2)
    options = {"cache_dir": tmp_path / "cache", **options}
    stream = load(directory, kind, on_corrupt="skip", **options)
    if "mixup" in options.get("augment", ""):
        sizes = [len(batch[0]) for batch in stream.dataset]
        assert sorted(sizes) == [3] + [4] * 9
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            left = numbers(stream)
        whole = numbers(load(intact[kind], kind, **options))
        assert left == without(whole, {27})
    assert stream.skipped == 1


def test_batches_with_weights_keep_their_shape(damaged: Any) -> None:
    directory = damaged("image")
    frame = frames(directory)[0]
    flip(frame.path, frame.offset + 20)
    stream = load(
        directory, "image", batch_size=16, shuffle="off", remainder="pad", on_corrupt="skip"
    )
    assert all(spec.shape[0] == 16 for spec in tf.nest.flatten(stream.dataset.element_spec))
    weights = np.array([batch[2] for batch in stream.dataset])
    assert weights.sum() == RECORDS - 1 and weights[0, 0] == 0


def test_a_mixture_skips_too(intact: dict[str, Path], tmp_path: Path) -> None:
    whole, directory = intact["text"], tmp_path / "second"
    write_text_set(directory, 20)
    options: dict[str, Any] = {"batch_size": 8, "steps_per_epoch": 9, "epochs": 1, "cache": "off"}
    expected = texts(reader.mix({whole: 1, directory: 1}, **options))
    frame = frames(directory)[5]
    flip(frame.path, frame.offset + 20)
    stream = reader.mix({whole: 1, directory: 1}, **options, on_corrupt="skip")
    left = texts(stream)
    assert left == [[text for text in batch if text != "20 text 5"] for batch in expected]
    assert left != expected
    assert stream.skipped == 1


@pytest.mark.interop
@pytest.mark.parametrize("batch_size", [4, 1])
def test_tensors_of_pytorch_skip_too(
    batch_size: int, intact: dict[str, Path], damaged: Any
) -> None:
    directory = damaged("image")
    frame = frames(directory)[27]
    flip(frame.path, frame.offset + 20)
    stream = load(directory, "image", on_corrupt="skip", batch_size=batch_size)
    with pytest.warns(RuntimeWarning, match="'r27'"):
        left = [labels.tolist() for _, labels in stream.torch()]
    assert left == without(numbers(load(intact["image"], "image", batch_size=batch_size)), {27})
    assert stream.skipped == 1
    with pytest.raises(DamageError, match="'r27'"):
        list(load(directory, "image").torch())


@pytest.mark.parametrize("kind", ["image", "text"])
@pytest.mark.parametrize("cache", ["off", "memory", pytest.param("disk", marks=proof)])
def test_a_set_at_a_url_skips_too(
    kind: str, cache: str, memory: Any, intact: dict[str, Path], damaged: Any, tmp_path: Path
) -> None:
    """Of the ranges of objects that are read, the copy that is kept, or all in memory."""
    directory = damaged(kind)
    frame = frames(directory)[27]
    flip(frame.path, frame.offset + 20)
    url = memory.copy(directory, "bucket/set")
    options: dict[str, Any] = {"cache": cache, "cache_dir": tmp_path / "cache"}
    whole = numbers(load(intact[kind], kind))
    stream = load(url, kind, on_corrupt="skip", **options)
    assert numbers(stream) == without(whole, {27})
    assert stream.skipped == 1
    with pytest.raises(DamageError, match=f"memory://bucket/set/{frame.path.name} at byte"):
        list(load(url, kind, cache_dir=tmp_path / "other", cache=cache).numpy())


def test_a_missing_shard_at_a_url_costs_its_records(
    memory: Any, intact: dict[str, Path], tmp_path: Path
) -> None:
    url = memory.copy(intact["text"], "bucket/set")
    last = sorted(name for name in memory.objects if ".tfrecord-" in name)[-1]
    del memory.objects[last]
    stream = load(url, "text", on_corrupt="skip", cache_dir=tmp_path / "cache")
    whole = numbers(load(intact["text"], "text"))
    assert numbers(stream) == without(whole, set(range(25, 40)))
    assert stream.skipped == 15


def test_a_damaged_index_is_named(damaged: Any) -> None:
    import pyarrow as pa

    directory = damaged("text")
    path = directory / index_file("train")
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    offsets = table["offset"].to_pylist()
    offsets[3] = 1 << 40
    table = table.set_column(1, table.schema.field(1), pa.array(offsets, pa.int64()))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DamageError, match=f"The index {path} is damaged: its row 3 is for bytes"):
        list(load(directory, "text").numpy())
    stream = load(directory, "text", on_corrupt="skip")
    assert sorted(number for batch in numbers(stream) for number in batch) == [
        n for n in range(RECORDS) if n != 3
    ]


def test_a_split_without_a_whole_record(damaged: Any) -> None:
    directory = damaged("text")
    for shard in directory.glob("*.tfrecord-*"):
        shard.unlink()
    with pytest.raises(DamageError, match="No record of the split can be read in"):
        list(load(directory, "text", on_corrupt="skip").numpy())


def test_where_damage_cannot_be_skipped(intact: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="on_corrupt='skip' does not work with service"):
        load(intact["text"], "text", on_corrupt="skip", cache="auto", service="grpc://here:1")
    stream = load(intact["text"], "text", on_corrupt="skip")
    with pytest.raises(UsageError, match=r"in Stream.numbered. Read with on_corrupt='raise'"):
        stream.numbered(0, 0, 1)
    with pytest.raises(UsageError, match=r"Unknown on_corrupt 'skp' .* Choices: raise, skip"):
        load(intact["text"], "text", on_corrupt="skp")
