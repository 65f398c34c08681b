"""`decode=False`: the bytes of images as they are stored, with labels and further features."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import reader
from reader.access.numpy_decoders import NUMPY_DECODERS
from shard_format import UsageError
from tests.reader.conftest import MakeSet


def stored(directory: Path) -> dict[int, bytes]:
    """The image of every record, by its label: record numbers are labels."""
    records = reader.random_access(directory, decode=False)
    return {record["label"]: record["image"] for record in records}


@pytest.mark.parametrize("encoding", ["jpeg", "png", "raw"])
@pytest.mark.parametrize("shuffle", ["window", "full"])
@pytest.mark.parametrize("cache", ["off", "memory", "disk"])
def test_bytes_are_those_of_the_shards(
    make_set: MakeSet, tmp_path: Path, encoding: str, shuffle: str, cache: str
) -> None:
    sizes = ((24, 32), (40, 16), (1, 1))
    directory = make_set({"train": (13, 10)}, sizes=sizes, encoding=encoding)
    options: dict[str, Any] = {"batch_size": 4, "epochs": 2, "shuffle": shuffle, "cache": cache}
    stream = reader.load(directory, decode=False, cache_dir=tmp_path / "cache", **options)
    decoded = reader.load(directory, image_size=8, cache_dir=tmp_path / "cache", **options)
    expected, seen = stored(directory), []
    for (images, labels), (_, same) in zip(stream, decoded, strict=True):
        assert labels.tolist() == same.tolist(), "the order is that of decoded images"
        assert [image.tobytes() for image in images] == [expected[n] for n in labels.tolist()]
        seen += labels.tolist()
    assert sorted(set(seen)) == list(range(23))


def test_the_arrays_are_the_callers(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=8, decode=False, epochs=2, cache="memory")
    expected = stored(tiny)
    for images, labels in stream:
        for image, label in zip(images, labels.tolist(), strict=True):
            assert image.tobytes() == expected[label]
            image.fill(0)


def test_sides_of_raw_images_come_as_features(make_set: MakeSet) -> None:
    directory = make_set({"train": (9,)}, sizes=((24, 32), (3, 5)), encoding="raw")
    asked = ("height", "width")
    inputs, labels = next(iter(reader.load(directory, batch_size=9, decode=False, features=asked)))
    sides = zip(*(inputs[name].tolist() for name in asked), strict=True)
    whole = reader.random_access(directory)
    by_label = {record["label"]: record["image"] for record in whole}
    for image, (height, width), label in zip(inputs["image"], sides, labels.tolist(), strict=True):
        decode = NUMPY_DECODERS["raw"]
        pixels = decode(image.data, {"height": height, "width": width})
        assert np.array_equal(pixels, by_label[label])


@pytest.mark.parametrize("labels", ["one", "many", "none"])
def test_a_graph_gives_the_same(make_set: MakeSet, labels: str) -> None:
    directory = make_set({"train": (20,)}, labels=labels)
    stream = reader.load(directory, batch_size=6, decode=False, cache="off")
    dataset, numbered = stream.dataset, stream.numbered(0, 0, 3)
    first = dataset.element_spec if labels == "none" else dataset.element_spec[0]
    assert first == tf.TensorSpec([6], tf.string)
    for one, other in zip(dataset.take(3), numbered, strict=True):
        same = tf.nest.map_structure(lambda a, b: np.array_equal(a.numpy(), b.numpy()), one, other)
        assert all(tf.nest.flatten(same))
    images = next(iter(dataset)) if labels == "none" else next(iter(dataset))[0]
    assert tf.io.decode_jpeg(images[0]).shape == (24, 32, 3)


@pytest.mark.parametrize("remainder", ["keep", "pad"])
def test_damaged_records_are_left_out(tiny: Path, tmp_path: Path, remainder: str) -> None:
    expected = stored(tiny)
    directory = Path(shutil.copytree(tiny, tmp_path / "damaged"))
    shard = next(directory.glob("*train*.tfrecord-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    stream = reader.load(
        *(directory,), batch_size=8, decode=False, epochs=1, on_corrupt="skip", remainder=remainder
    )
    with pytest.warns(RuntimeWarning):
        batches = list(stream)
    for images, labels, *_ in batches:
        assert [image.tobytes() for image in images] == [expected[n] for n in labels.tolist()]
    counted = sum(int(batch[2].sum()) if len(batch) > 2 else len(batch[0]) for batch in batches)
    assert counted == len(expected) - stream.skipped == len(expected) - 1


def test_a_batch_of_lost_records_is_empty_in_tensorflow(make_set: MakeSet) -> None:
    directory = make_set({"train": (4, 4)})
    sorted(directory.glob("*train*.tfrecord-*"))[0].unlink()
    stream = reader.load(
        directory, batch_size=2, decode=False, epochs=1, on_corrupt="skip", shuffle="off"
    )
    with pytest.warns(RuntimeWarning):
        sizes = [len(images) for images, _ in stream.dataset]
    assert sizes == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_size": 224}, "image_size=224 is for pixels"),
        ({"augment": "standard"}, "augment='standard' is for pixels"),
        ({"dtype": "float32"}, "dtype='float32' is for pixels"),
        ({"normalize": "zscore"}, "normalize='zscore' is for pixels"),
        ({"cache": "memory", "cache_stage": "decoded"}, "cache_stage='decoded' is for pixels"),
        ({"service": "grpc://localhost:1"}, "decode=False does not work with service"),
    ],
)
def test_what_needs_pixels_is_refused(tiny: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        reader.load(tiny, batch_size=4, decode=False, **options)


def test_texts_have_nothing_to_decode(text_set: MakeSet) -> None:
    with pytest.raises(UsageError, match="decode=False does not apply to raw text"):
        reader.load(text_set(train=[("a", 1)]), batch_size=1, decode=False)


def test_mixtures_hand_out_bytes(tiny: Path, tmp_path: Path) -> None:
    copy, expected = shutil.copytree(tiny, tmp_path / "copy"), stored(tiny)
    mixture = reader.mix({tiny: 0.5, copy: 0.5}, batch_size=8, decode=False, epochs=1)
    for images, labels in mixture:
        assert [image.tobytes() for image in images] == [expected[n] for n in labels.tolist()]
