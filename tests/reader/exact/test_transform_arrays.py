"""Every transform in NumPy gives what it gives in a graph, from the same random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import reader
from beam_jobs.images.encode import ENCODERS
from reader.graph.pipeline import build_dataset
from reader.transforms import (
    TRANSFORMS,
    CutMix,
    Mixup,
    RandAugment,
    RandomErasing,
    Rotation,
    Scale,
)
from reader.transforms.mixing import beta_quantile, beta_quantile_array
from reader.transforms.rand_augment import OPERATIONS
from reader.transforms.text import (
    LIST_TRANSFORMS,
    TEXT_TRANSFORMS,
    ArrayDraws,
    Draws,
    lists,
    make_list_step,
    make_step,
)
from reader.transforms.text.synonyms import read_synonyms, synonym_table
from reader.transforms.text.words import split_words
from shard_format import Feature, Schema
from tests.fixtures.proofs import examples, proof
from tests.fixtures.sets import write_shard_set

SIDE, RECORDS, CLASSES = 24, 26, 4

# How far values in [0, 255] may be apart, where not by nothing. What is interpolated or goes
# through HSV is worked out by another library; a mean of two whole numbers may be rounded to
# either.
TOLERANCES = {"rotation": 0.01, "scale": 0.01, "saturation": 0.01, "hue": 0.01, "mixup": 0.001}
TOLERANCES |= {"contrast": 0.001, "brightness": 0.001}
# A pixel halfway between two may be either, where a compiler joins two roundings into one.
EITHER = 0.002


@pytest.fixture(scope="module")
def patterned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares of all colours, so that no place looks like another."""
    names = tuple(f"class{number}" for number in range(CLASSES))
    features = (
        Feature("image", "image", (-1, -1, 3), "png"),
        Feature("label", "class_label", (), "", names),
    )
    records = []
    for number in range(RECORDS):
        random = np.random.default_rng(number)
        pixels = random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
        pixels[: SIDE // 2] = np.kron(pixels[:6, :12], np.ones((2, 2, 1), np.uint8))
        row = {"record_id": f"r{number}", "width": SIDE, "height": SIDE}
        values = {"image": ENCODERS["png"](pixels, 90), "label": number % CLASSES}
        records.append((values, row))
    directory = tmp_path_factory.mktemp("patterned") / "set"
    columns = (pa.field("width", pa.int32()), pa.field("height", pa.int32()))
    schema = Schema("image", features)
    write_shard_set(directory, schema, {"train": [records]}, columns, {"train": {}})
    return directory


def streams(directory: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """The batches of two epochs from NumPy, and the same from a graph."""
    stream: Any = reader.load(directory, epochs=2, **options)
    assert not stream.opened.loader.parser.needs_tensorflow
    return zip(stream, build_dataset(stream.pipeline, 0, 0, len(stream)), strict=True)


def both_ways(directory: Path, augment: Any, **options: Any) -> list[tuple[Any, Any]]:
    """The images of each batch, from NumPy and from a graph; labels are seen to be the same."""
    pairs = []
    for batch, tensors in streams(directory, augment=augment, **options):
        (image, label), (expected, expected_label) = batch, tensors
        assert label.dtype == expected_label.dtype.as_numpy_dtype
        np.testing.assert_allclose(label, expected_label.numpy(), rtol=0, atol=1e-6)
        assert image.dtype == expected.dtype.as_numpy_dtype and image.shape == expected.shape
        pairs.append((image, expected.numpy()))
    return pairs


STRONG = [Rotation(180, fill=7), Scale(0.3, 3), RandAugment(2, 30), RandAugment(1, 0)]
STRONG += [RandomErasing(1, fill="color"), RandomErasing(1, 0.5, 1, fill=9.5)]
STRONG += [Mixup(0.4, 0.5), CutMix(0.4, 0.5)]
ALL = [(name, make()) for name, make in TRANSFORMS.items() if make().stage != "crop"]
ALL += [(_name, one) for one in STRONG for _name, make in TRANSFORMS.items() if make is type(one)]
# Every transform as float32 or as uint8; the other one is a proof.
CASES = [
    pytest.param((*one, dtype), marks=() if number % 2 == at else proof)
    for number, one in enumerate(ALL)
    for at, dtype in enumerate(("float32", "uint8"))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_images(patterned: Path, case: tuple[str, Any, str]) -> None:
    name, transform, dtype = case
    options: dict[str, Any] = {"batch_size": 13, "image_size": SIDE, "dtype": dtype}
    pairs = both_ways(patterned, ["none", transform], **options)
    plain = reader.load(patterned, augment="none", epochs=2, **options)
    assert len(pairs) == 4
    for (image, expected), (before, _) in zip(pairs, plain, strict=True):
        assert image.shape != before.shape or (image != before).any()
        check(name, dtype, image, expected)


def check(name: str, dtype: str, image: Any, expected: Any) -> None:
    tolerance = TOLERANCES.get(name, 0.0)
    if tolerance and dtype == "uint8":
        tolerance = 1.0
    apart = np.abs(image.astype(np.float64) - expected) > tolerance
    assert apart.mean() <= (EITHER if name == "rand_augment" else 0), apart.mean()


uniform = st.integers(0, 2**24 - 1).map(lambda bits: bits * 2.0**-24)


@given(st.lists(uniform, min_size=1, max_size=20), st.floats(0.01, 100))
@settings(max_examples=examples(40))
def test_weights_of_mixed_records(random: list[float], alpha: float) -> None:
    drawn = np.array(random, np.float32)
    expected = beta_quantile(tf.constant(drawn), alpha).numpy()
    # TensorFlow takes what is too small for a normal float32 for 0.
    np.testing.assert_allclose(beta_quantile_array(drawn, alpha), expected, rtol=0, atol=1e-37)


# Whole images from one pixel on, of few sizes, since a graph is compiled for each.
SIZES = st.sampled_from([(1, 1), (1, 2), (30, 30), (2, 200), (31, 17)])


@given(SIZES, st.sampled_from([0.0, 0.9, 3.0]), st.sampled_from([-1.0, 1.0]), st.integers(0, 99))
@settings(max_examples=examples(80), deadline=None)
def test_operations_of_rand_augment(
    size: tuple[int, int], level: float, sign: float, seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8) // (1 + seed % 5)
    for name, operation in OPERATIONS.items():
        array = operation(pixels, level, np.float32(sign))
        expected = operation(tf.constant(pixels), level, tf.constant(sign)).numpy()
        assert array.dtype == np.uint8 and array.shape == expected.shape, name
        assert (array != expected).mean() <= EITHER, name


def test_labels_of_several_names_and_normalized_values(patterned: Path) -> None:
    normalize = reader.Normalization("own", (100.0, 110.0, 120.0), (50.0, 60.0, 70.0))
    augment = ["standard", "hue", "mixup", "cutmix", normalize, "channels_first"]
    options: dict[str, Any] = {"batch_size": 10, "image_size": 16, "label": ("label",)}
    for batch, tensors in streams(patterned, augment=augment, **options):
        expected = tensors[1]["label"].numpy()
        np.testing.assert_allclose(batch[1]["label"], expected, atol=1e-6)
        assert batch[0].shape == (10, 3, 16, 16) and batch[0].dtype == np.float32
        # Resized otherwise by a hundredth of a level, which the hue of a dark pixel multiplies.
        assert np.abs(batch[0] - tensors[0].numpy()).max() < 0.01


SENTENCE = "the quick brown fox, jumps over the lazy dog (and) runs away from all the others here"
LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
texts = st.lists(
    st.one_of(
        st.text(LETTERS, max_size=30),
        st.lists(st.sampled_from(SENTENCE.split()), max_size=40).map(" ".join),
    ),
    min_size=1,
    max_size=6,
)


def test_words_are_taken_apart_alike() -> None:
    """At any character that is white space for one of them."""
    every = [f"a{chr(code)}b" for code in range(1, 0x3100)]
    expected = [len(words) for words in split_words(tf.constant(every)).to_list()]
    assert [len(lists._WORD.findall(text)) for text in every] == expected


@given(texts, st.integers(0, 2**32 - 1))
@settings(max_examples=examples(100), deadline=None)
def test_texts(tmp_path_factory: Any, texts: list[str], seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**63, len(texts)).astype(np.uint64)
    path = tmp_path_factory.getbasetemp() / "synonyms.txt"
    path.write_text("quick, fast, in no time\nthe, a\nfox, dog, cat\nover, on\n")
    synonyms = read_synonyms(path)
    words = ("word_swap", "word_dropout")
    steps = [(LIST_TRANSFORMS[name], TEXT_TRANSFORMS[name]) for name in TEXT_TRANSFORMS]
    steps += [(make_list_step(words, synonyms), make_step(words, synonym_table(synonyms)))]
    for on_lists, step in steps:
        changed = on_lists(texts, ArrayDraws(keys))
        expected = step(tf.constant(texts), Draws(tf.constant(keys))).numpy()
        assert changed == [text.decode() for text in expected]


@pytest.mark.parametrize("augment", ["standard", "strong"])
def test_streams_of_texts(text_set: Any, tmp_path: Path, augment: str) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_text("quick, fast, in no time\nthe, a\n")
    directory = text_set(train=[(f"{n} {SENTENCE} {n}", n % 2) for n in range(30)] + [("", 0)])
    options: dict[str, Any] = {"batch_size": 9, "augment": augment, "synonyms": path}
    for (text, label), (expected, expected_label) in streams(directory, **options):
        assert text.tolist() == expected.numpy().tolist()
        assert label.tolist() == expected_label.numpy().tolist()


@pytest.mark.parametrize("augment", ["standard", "strong"])
@pytest.mark.parametrize(("pad", "limit"), [("longest", None), ("max", 7), ("none", 7)])
def test_streams_of_token_ids(token_set: Any, augment: str, pad: str, limit: int | None) -> None:
    random = np.random.default_rng(0)
    records = [(random.integers(5, 50, n).tolist(), n % 2) for n in [0, 1, 2, *range(3, 30)]]
    options: dict[str, Any] = {"batch_size": 10, "pad": pad, "max_tokens": limit}
    for batch, tensors in streams(token_set(train=records), augment=augment, **options):
        ids = [row.tolist() for row in batch[0]]
        assert ids == (tensors[0].to_list() if pad == "none" else tensors[0].numpy().tolist())


def test_streams_of_packed_sequences(packed_set: Any) -> None:
    ids = np.random.default_rng(0).integers(5, 50, 40).tolist()
    rows = [[ids[n : 2 * n], ids[: 10 - n]] for n in range(1, 11)]
    directory = packed_set(24, train=rows)
    for batch, tensors in streams(directory, batch_size=2, augment="standard"):
        for one, other in zip(tf.nest.flatten(batch), tf.nest.flatten(tensors), strict=True):
            assert (one == other.numpy()).all()
