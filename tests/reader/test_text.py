"""Documents as strings, as token ids and as packed sequences: what a batch holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

import reader
from shard_format import UsageError
from tests.fixtures.proofs import each_value_once, examples, proofs

MakeSet = Callable[..., Path]


def documents(count: int, longest: int = 40, seed: int = 0) -> list[tuple[list[int], int]]:
    """Record n begins with n // 40 and n % 40 (both below 50), whatever its length."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, longest, count)
    return [([n // 40, n % 40, *[7] * (length - 2)], n % 2) for n, length in enumerate(lengths)]


def numbers_of(ids: Any) -> list[int]:
    return [int(row[0]) * 40 + int(row[1]) for row in ids]


def filled(ids: Any, pad_id: int) -> int:
    return int((ids.numpy() != pad_id).sum())


@pytest.mark.parametrize(
    ("cache", "buckets", "batch_size"), each_value_once(["off", "memory"], [1, 4, 4], [7, 16, 64])
)
@pytest.mark.usefixtures("small_windows")
def test_every_record_comes_once_in_an_epoch(
    token_set: MakeSet, buckets: int, batch_size: int, cache: str
) -> None:
    records = documents(210)
    directory = token_set(train=records)
    stream = reader.load(
        directory, batch_size=batch_size, buckets=buckets, epochs=1, seed=3, cache=cache
    )
    seen, batches = [], 0
    for ids, labels in stream.dataset:
        numbers = numbers_of(ids)
        assert [records[n][1] for n in numbers] == labels.numpy().tolist()
        for row, number in zip(ids.numpy(), numbers, strict=True):
            assert row[row != stream.info.tokens.pad_id].tolist() == records[number][0]
        assert ids.shape[1] == max(len(records[n][0]) for n in numbers)
        seen += numbers
        batches += 1
    assert sorted(seen) == list(range(210))
    assert batches == stream.steps_per_epoch == stream.dataset.cardinality()


@pytest.mark.usefixtures("small_windows")
def test_buckets_are_a_function_of_seed_and_epoch(token_set: MakeSet) -> None:
    directory = token_set(train=documents(203))

    def epochs(seed: int) -> list[list[list[int]]]:
        options: dict[str, Any] = {"batch_size": 8, "buckets": 4, "seed": seed, "epochs": 3}
        batches = [numbers_of(ids) for ids, _ in reader.load(directory, **options).dataset]
        return [batches[start : start + 25] for start in range(0, 75, 25)]

    first, second, third = epochs(5)
    assert [first, second, third] == epochs(5)
    assert len({str(first), str(second), str(third), str(epochs(6)[0])}) == 4
    for batches in (first, second, third):
        assert len({number for batch in batches for number in batch}) == 200


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(
    ("max_tokens", "how", "drop"),
    each_value_once(
        [None, 12],
        [("longest", 1, "window"), ("longest", 1, "off"), ("longest", 4, "window"),
         ("max", 4, "window"), ("none", 1, "window")],
        [True, True, False],
    ),
)  # fmt: skip
def test_the_padding_share_is_that_of_the_batches(
    token_set: MakeSet, how: tuple[str, int, str], max_tokens: int | None, drop: bool
) -> None:
    pad, buckets, shuffle = how
    # 192 = 12 batches of 16, so that no record of the epoch is left out with pad="max"
    directory = token_set(train=documents(192 if drop else 203))
    options: dict[str, Any] = {"pad": pad, "buckets": buckets, "shuffle": shuffle, "seed": 2}
    options |= {
        "max_tokens": max_tokens,
        "batch_size": 16,
        "epochs": 1,
        "remainder": "drop" if drop else "keep",
    }
    stream = reader.load(directory, **options)
    assert stream.info.tokens is not None
    tokens = positions = 0
    for ids, _ in stream.dataset:
        if pad == "none":
            tokens += ids.flat_values.shape[0]
            positions += ids.flat_values.shape[0]
        else:
            tokens += filled(ids, stream.info.tokens.pad_id)
            positions += ids.numpy().size
            assert max_tokens is None or ids.shape[1] <= max_tokens
    assert stream.info.tokens.num_tokens == tokens
    assert stream.info.tokens.padding_share == pytest.approx(1 - tokens / positions)
    assert (stream.info.tokens.num_cut > 0) == (max_tokens is not None)


def test_buckets_save_padding(token_set: MakeSet) -> None:
    directory = token_set(train=documents(400, longest=90))

    def share(buckets: int, streams: int | None = None) -> float:
        options: dict[str, Any] = {"batch_size": 16, "buckets": buckets, "streams": streams}
        tokens = reader.load(directory, **options).info.tokens
        assert tokens is not None
        return tokens.padding_share

    shares = [share(buckets, streams=1) for buckets in (1, 2, 8)]
    assert shares[0] > 0.4 > shares[1] > shares[2] and shares[2] < 0.15
    # 400 records in 8 blocks of 50: what several workers cost.
    assert shares[2] < share(8) < 0.2


def test_shapes_of_the_ways_to_pad(token_set: MakeSet) -> None:
    directory = token_set(train=documents(40))
    longest = max(len(ids) for ids, _ in documents(40))

    def spec(**options: Any) -> Any:
        return reader.load(directory, batch_size=8, **options).dataset.element_spec[0]

    assert spec() == tf.TensorSpec((8, None), tf.int64)
    assert spec(pad="max") == tf.TensorSpec((8, longest), tf.int64)
    assert spec(pad="max", max_tokens=100) == tf.TensorSpec((8, 100), tf.int64)
    assert isinstance(spec(pad="none"), tf.RaggedTensorSpec)
    info = reader.load(directory, batch_size=8, max_tokens=9).info
    assert (info.record_type, info.element_shape, info.dtype) == ("tokens", (None,), "int64")
    assert (info.targets, info.class_names) == ("label", ("class0", "class1"))
    assert info.tokens is not None
    assert (info.tokens.vocabulary_size, info.tokens.pad_id, info.tokens.max_tokens) == (51, 50, 9)


def test_token_ids_without_labels_and_without_tokens(token_set: MakeSet) -> None:
    directory = token_set(classes=0, train=[([], 0), ([3], 0), ([], 0)])
    for pad in ("longest", "max", "none"):
        options: dict[str, Any] = {"batch_size": 3, "pad": pad, "shuffle": "off", "epochs": 1}
        (ids,) = reader.load(directory, **options).dataset
        expected = [[], [3], []] if pad == "none" else [[50], [3], [50]]
        assert (ids.to_list() if pad == "none" else ids.numpy().tolist()) == expected


def test_measure_counts_tokens(token_set: MakeSet) -> None:
    records = documents(40)
    stream = reader.load(token_set(train=records), batch_size=8, epochs=1)
    rate = reader.measure(stream, 60)
    mean = sum(len(ids) for ids, _ in records) / 40
    assert rate.tokens_per_second == pytest.approx(rate.records_per_second * mean)


@pytest.mark.parametrize("augment", [*proofs("standard"), "strong"])
def test_token_augmentation(token_set: MakeSet, augment: str) -> None:
    records = [([1, 2, 3, 4, 5, 6, 7, 8] * 5, n % 2) for n in range(32)] + [([], 0), ([9], 1)]
    directory = token_set(train=records)
    options: dict[str, Any] = {"batch_size": 34, "shuffle": "off", "pad": "none"}

    def epochs(seed: int) -> list[list[list[int]]]:
        stream = reader.load(directory, augment=augment, seed=seed, epochs=2, **options)
        return [ids.to_list() for ids, _ in stream.dataset]

    first, second = epochs(1)
    assert [first, second] == epochs(1)
    assert first != second and first != epochs(2)[0]
    lengths = [len(row) for row in first[:32]]
    assert 0.85 < np.mean(lengths) / 40 < 0.95 and max(lengths) <= 40
    assert first[32] == [] and len(first[33]) == 1
    hidden = sum(token == 50 for row in first for token in row)
    assert (hidden > 0) == (augment == "strong")
    assert hidden < 0.15 * sum(lengths)


SEQUENCES = st.lists(
    st.lists(st.lists(st.integers(1, 49), min_size=1, max_size=5), max_size=3),
    min_size=1,
    max_size=6,
)


@hypothesis.given(SEQUENCES)
@hypothesis.settings(max_examples=examples(8), suppress_health_check=list(hypothesis.HealthCheck))
def test_targets_stay_within_their_document(
    packed_set: MakeSet, tmp_path: Path, sequences: list[list[list[int]]]
) -> None:
    name = f"set{len(list(tmp_path.iterdir()))}"
    directory = packed_set(16, name=name, train=sequences)
    size = len(sequences)
    stream = reader.load(directory, batch_size=size, shuffle="off", epochs=1)
    ((inputs, targets, weights),) = stream.dataset
    assert set(inputs) == {"tokens", "segments", "positions"}
    assert {x.shape for x in (*inputs.values(), targets, weights)} == {(size, 15)}
    # Every document gives its neighbouring pairs, and nothing else has a weight.
    expected = Counter(
        (row, ids[i], ids[i + 1], i)
        for row, sequence in enumerate(sequences)
        for ids in sequence
        for i in range(len(ids) - 1)
    )
    where = np.argwhere(weights.numpy() == 1)
    assert (
        Counter(
            (
                int(r),
                int(inputs["tokens"][r, c]),
                int(targets[r, c]),
                int(inputs["positions"][r, c]),
            )
            for r, c in where
        )
        == expected
    )
    assert set(np.unique(weights)) <= {0.0, 1.0}
    used = sum(len(ids) for sequence in sequences for ids in sequence)
    info = stream.info
    assert info.tokens is not None and info.tokens.num_tokens == used
    assert info.tokens.padding_share == pytest.approx(1 - used / (16 * size))
    assert (info.targets, info.record_type, info.element_shape) == ("next_tokens", "packed", (15,))


def test_packed_inputs_are_hidden_and_targets_are_not(packed_set: MakeSet) -> None:
    directory = packed_set(64, train=[[[5] * 30, [6] * 20]] * 20)
    stream = reader.load(directory, batch_size=20, augment="standard", epochs=1)
    ((inputs, targets, _),) = stream.dataset
    hidden = inputs["tokens"].numpy() == 50
    assert 0.05 < hidden[:, :50].mean() < 0.15 and not hidden[:, 50:].any()
    assert not (targets.numpy() == 50).any()
    with pytest.raises(UsageError, match=r"Unknown augment 'strong' .* Choices: none, standard"):
        reader.load(directory, batch_size=20, augment="strong")


@pytest.mark.parametrize("remainder", ["drop", "pad"])
def test_without_segments_there_are_ids_and_next_ids_alone(
    packed_set: MakeSet, remainder: str
) -> None:
    directory = packed_set(6, train=[[[n, n + 1, 3], [4, 5]] for n in range(1, 6)])
    options: dict[str, Any] = {"batch_size": 2, "epochs": 1, "remainder": remainder}
    whole = reader.load(directory, **options).numpy()
    stream = reader.load(directory, segments=False, **options)
    steps = stream.steps_per_epoch
    for (inputs, targets, _), own, graph in zip(
        whole, stream.numpy(), stream.numbered(0, 0, steps), strict=True
    ):
        assert np.array_equal(own[0], inputs["tokens"]) and np.array_equal(own[1], targets)
        assert len(own) == len(graph) == 2 + (remainder == "pad")
        assert all(map(_equal, own, graph))
    assert stream.info.targets == "next_tokens"


def _equal(array: Any, tensor: Any) -> bool:
    return np.array_equal(array, tensor.numpy()) and array.dtype == tensor.dtype.as_numpy_dtype


def test_keras_fits_a_language_model(packed_set: MakeSet) -> None:
    import keras

    directory = packed_set(9, train=[[[1, 2, 3, 4], [1, 2, 3, 4, 5]]] * 24)
    stream = reader.load(directory, batch_size=8)
    model = keras.Sequential(
        [keras.layers.Embedding(51, 8), keras.layers.Dense(51, activation="softmax")]
    )
    tokens = keras.Input((8,), name="tokens")
    model = keras.Model({"tokens": tokens}, model(tokens))
    model.compile("adam", "sparse_categorical_crossentropy")
    dataset = stream.dataset.map(lambda x, y, w: ({"tokens": x["tokens"]}, y, w))
    fitted = model.fit(dataset, steps_per_epoch=3, epochs=2, verbose=0).history["loss"]
    assert fitted[1] < fitted[0]


def test_documents_come_as_strings(text_set: MakeSet) -> None:
    directory = text_set(train=[("Grüße, 世界!", 0), ("", 1), ("a\nb", 1)])
    stream = reader.load(directory, batch_size=3, shuffle="off", epochs=1)
    ((texts, labels),) = stream.dataset
    assert [text.decode() for text in texts.numpy()] == ["Grüße, 世界!", "", "a\nb"]
    assert labels.numpy().tolist() == [0, 1, 1]
    info = stream.info
    assert (info.record_type, info.dtype, info.element_shape) == ("text", "string", ())
    assert info.tokens is None
    assert reader.measure(stream, 60).tokens_per_second is None


def test_documents_with_any_number_of_labels(text_set: MakeSet) -> None:
    directory = text_set(classes=3, many=True, train=[("a", [0, 2]), ("b", []), ("c", [1, 1])])
    stream = reader.load(directory, batch_size=3, shuffle="off", epochs=1)
    ((_, labels),) = stream.dataset
    assert labels.numpy().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert labels.dtype == tf.float32 and stream.info.targets == "labels"


def test_documents_without_labels(text_set: MakeSet) -> None:
    stream = reader.load(text_set(classes=0, train=[("a", 0), ("b", 0)]), batch_size=2, epochs=1)
    (texts,) = stream.dataset
    assert sorted(texts.numpy()) == [b"a", b"b"]
