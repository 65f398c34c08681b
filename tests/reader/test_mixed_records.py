"""mixup and CutMix, on batches and through `reader.load`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import reader
from reader.transforms import CutMix, Mixup
from reader.transforms.mixing import beta_quantile, find_partners
from shard_format import UsageError
from tests.fixtures.proofs import each_value_once

CLASSES = 5


def batch_of(count: int, height: int, width: int, dtype: Any, seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 256, (count, height, width, 3)).astype(dtype)
    label = np.eye(CLASSES, dtype=np.float32)[generator.integers(0, CLASSES, count)]
    return {"image": tf.constant(image), "label": tf.constant(label)}


def draws_of(transform: Any, count: int, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).random((count, transform.num_random))
    return tf.constant(numbers, tf.float32)


def both_ways(transform: Any, batch: Any, random: Any) -> Any:
    """(image, label), seen to be the same eagerly and in a tf.data map."""
    eager = transform(batch, random)
    dataset = tf.data.Dataset.from_tensors((batch, random)).map(transform)
    mapped = next(iter(dataset))
    for name in ("image", "label"):
        assert mapped[name].dtype == batch[name].dtype
        assert (mapped[name].numpy() == eager[name].numpy()).all()
    return eager["image"].numpy(), eager["label"].numpy()


def partners_by_hand(random: Any) -> Any:
    order = np.argsort(random)
    partners = np.empty_like(order)
    partners[order] = np.roll(order, -1)
    return partners


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_mixup(dtype: Any) -> None:
    transform, batch = Mixup(alpha=1), batch_of(7, 6, 4, dtype)
    random = draws_of(transform, 7)
    image, label = both_ways(transform, batch, random)
    share, partners = random.numpy()[:, 0], partners_by_hand(random.numpy()[:, 1])
    own = batch["image"].numpy().astype(np.float64)
    weight = share[:, None, None, None]
    expected = own * weight + own[partners] * (1 - weight)
    np.testing.assert_allclose(image, expected, atol=0.51 if dtype == np.uint8 else 1e-3)
    labels = batch["label"].numpy()
    expected = labels * share[:, None] + labels[partners] * (1 - share[:, None])
    np.testing.assert_allclose(label, expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (1, 1), (3, 50)])
def test_cutmix(dtype: Any, height: int, width: int) -> None:
    transform, batch = CutMix(), batch_of(9, height, width, dtype)
    random = draws_of(transform, 9)
    image, label = both_ways(transform, batch, random)
    partners = partners_by_hand(random.numpy()[:, 1])
    own, labels = batch["image"].numpy(), batch["label"].numpy()
    for row in range(9):
        foreign = (image[row] != own[row]).any(axis=-1)
        assert (image[row][foreign] == own[partners[row]][foreign]).all()
        if foreign.any():  # a rectangle, filled but for pixels that two images have in common
            rows, columns = np.where(foreign)
            area = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
            assert foreign.sum() >= 0.9 * area
        else:
            area = 0
        kept = 1 - area / (height * width)
        expected = labels[row] * kept + labels[partners[row]] * (1 - kept)
        np.testing.assert_allclose(label[row], expected, atol=1e-5)


def test_cutmix_takes_the_share_it_drew() -> None:
    """Where the rectangle is not cut off at the border, its area is what the distribution says."""
    batch = batch_of(2, 100, 100, np.float32)
    random = tf.constant([[0.36, 0.1, 0, 0.5, 0.5], [0.99, 0.2, 0, 0.5, 0.5]])
    image = CutMix()(batch, random)["image"].numpy()
    foreign = (image != batch["image"].numpy()).any(axis=-1)
    assert foreign[0].sum() == pytest.approx(0.64 * 100**2, rel=0.01)
    assert foreign[0, 10:90, 10:90].sum() == foreign[0].sum()
    assert foreign[1].sum() == 100


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.permutations(range(12)))
def test_whose_partner_does_not_depend_on_places(count: int, seed: int, order: Any) -> None:
    random = np.random.default_rng(seed).random(count).astype(np.float32)
    partners = find_partners(tf.constant(random)).numpy()
    assert sorted(partners) == list(range(count))
    if count > 1:
        assert (partners != np.arange(count)).all()
    order = np.array([place for place in order if place < count])
    moved = find_partners(tf.constant(random[order])).numpy()
    assert (order[moved] == partners[order]).all()


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.4, 1.0, 2.0, 8.0, 100.0])
def test_shares_are_beta_distributed(alpha: float) -> None:
    uniform = np.linspace(0, 1, 20001, dtype=np.float32)[1:-1]
    share = beta_quantile(tf.constant(uniform), alpha).numpy().astype(np.float64)
    assert (np.diff(share) >= 0).all() and share[0] >= 0 and share[-1] <= 1
    # The distribution of the drawn numbers, by an integral of TensorFlow's own.
    inside = (share > 1e-6) & (share < 1 - 1e-6)
    reached = tf.math.betainc(np.float64(alpha), np.float64(alpha), share[inside]).numpy()
    assert np.abs(reached - uniform[inside]).max() < 0.005
    # Mean and variance, which the ends count in: 1/2 and 1 / (4 (2 alpha + 1)).
    assert share.mean() == pytest.approx(0.5, abs=1e-3)
    assert share.var() == pytest.approx(0.25 / (2 * alpha + 1), rel=0.03)


@pytest.mark.parametrize("transform", [Mixup(probability=0), CutMix(probability=0)])
def test_nothing_is_mixed_with_probability_0(transform: Any) -> None:
    batch = batch_of(6, 8, 8, np.uint8)
    image, label = both_ways(transform, batch, draws_of(transform, 6))
    assert (image == batch["image"].numpy()).all() and (label == batch["label"].numpy()).all()


@pytest.mark.parametrize("transform", [Mixup(alpha=1), CutMix()])
def test_a_batch_of_one_is_left_alone(transform: Any) -> None:
    batch = batch_of(1, 8, 8, np.uint8)
    image, label = both_ways(transform, batch, draws_of(transform, 1))
    assert np.abs(image.astype(int) - batch["image"].numpy()).max() <= 1
    np.testing.assert_allclose(label, batch["label"].numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("augment", "dtype"),
    each_value_once(
        ["standard,mixup", "none, cutmix", "standard,mixup,cutmix"], ["uint8", "float32"]
    ),
)
@pytest.mark.usefixtures("small_windows")
def test_streams_of_mixed_records(tiny: Path, augment: str, dtype: str) -> None:
    stream = reader.load(tiny, batch_size=20, image_size=8, augment=augment, dtype=dtype, seed=2)
    assert stream.info.targets == "shares" and stream.info.num_classes == 131
    assert stream.dataset.element_spec == (
        tf.TensorSpec((20, 8, 8, 3), dtype),
        tf.TensorSpec((20, 131), tf.float32),
    )
    first = [(x.numpy(), y.numpy()) for x, y in stream.dataset.take(7)]
    for (x, y), (again_x, again_y) in zip(first, stream.dataset, strict=False):
        assert (x == again_x.numpy()).all() and (y == again_y.numpy()).all()
    labels = np.concatenate([label for _, label in first])
    np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-5)
    assert ((labels > 0).sum(axis=1) > 1).mean() > 0.5
    # The mean colour of an image tells its record; that of a mixture tells the mixture.
    colors = np.array([[10 + 25 * (n // p % 10) for p in (100, 10, 1)] for n in range(131)])
    for image, label in first:
        np.testing.assert_allclose(image.mean(axis=(1, 2)), label @ colors, atol=8)


@pytest.mark.usefixtures("small_windows")
def test_mixing_knows_nothing_of_the_order_within_a_batch(make_set: Any) -> None:
    """A whole epoch in one batch is mixed alike in any order; a batch of others is not."""
    directory = make_set({"train": (12,)})

    def rows(shuffle: str, epoch: int) -> set[bytes]:
        stream = reader.load(
            directory, batch_size=12, image_size=8, augment="standard,mixup", shuffle=shuffle,
            epochs=2,
        )  # fmt: skip
        _, labels = list(stream.dataset)[epoch]
        return {label.tobytes() for label in labels.numpy()}

    assert rows("window", 0) == rows("off", 0)
    assert rows("window", 0) != rows("window", 1)


def test_many_labels_are_mixed(make_set: Any) -> None:
    directory = make_set({"train": (12,)}, labels="many")
    stream = reader.load(
        directory, batch_size=6, image_size=8, augment=["none", Mixup(alpha=1)], epochs=1
    )
    assert stream.info.targets == "labels"
    for _, labels in stream.dataset:
        assert labels.shape == (6, 12) and labels.dtype == tf.float32
        assert ((labels.numpy() > 0) & (labels.numpy() < 1)).any()


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
def test_nothing_is_to_be_mixed_without_labels(make_set: Any, name: str) -> None:
    directory = make_set({"train": (6,)}, labels="none")
    with pytest.raises(
        UsageError, match=f"{name} in augment .* mixes labels, but the set has none"
    ):
        reader.load(directory, batch_size=6, image_size=8, augment=f"none,{name}")


def test_a_partial_last_batch_is_mixed_too(tiny: Path) -> None:
    stream = reader.load(
        tiny, split="test", batch_size=8, image_size=8, augment="none,cutmix", epochs=1
    )
    assert [label.shape for _, label in stream.dataset] == [(8, 131), (8, 131), (5, 131)]


def test_mixed_batches_are_resumed_exactly(tiny: Path) -> None:
    options: dict[str, Any] = {"batch_size": 16, "image_size": 8, "augment": "standard,cutmix"}
    whole = reader.load(tiny, **options, epochs=2)
    batches = [(x.numpy(), y.numpy()) for x, y in whole.dataset]
    rest = reader.load(tiny, **options, epochs=2, state=whole.state(4))
    for (x, y), (image, label) in zip(batches[4:], rest.dataset, strict=True):
        assert (x == image.numpy()).all() and (y == label.numpy()).all()


def test_workers_mix_what_they_hold(tiny: Path) -> None:
    """The records of a batch are the same for any number of workers; partners are not."""
    options: dict[str, Any] = {"batch_size": 16, "image_size": 8, "augment": "none,mixup"}

    def own_labels(worker: tuple[int, int]) -> list[set[int]]:
        stream = reader.load(tiny, **options, epochs=1, remainder="drop", worker=worker)
        return [set(np.flatnonzero(label.numpy().sum(axis=0))) for _, label in stream.dataset]

    alone, halves = own_labels((0, 1)), [own_labels((i, 2)) for i in range(2)]
    for batch, *parts in zip(alone, *halves, strict=True):
        assert len(batch) == 16 and [len(part) for part in parts] == [8, 8]
        assert parts[0] | parts[1] == batch


def test_filling_is_not_mixed(tiny: Path) -> None:
    with pytest.raises(
        UsageError, match="remainder='pad' does not work with a transform of the stage batch"
    ):
        reader.load(tiny, batch_size=16, image_size=8, augment="none,mixup", remainder="pad")


def test_mixtures_of_sets_are_mixed_too(tiny: Path) -> None:
    stream = reader.mix({tiny: 1.0}, batch_size=16, image_size=8, augment="standard,mixup")
    for _, labels in stream.dataset.take(3):
        np.testing.assert_allclose(labels.numpy().sum(axis=1), 1, atol=1e-5)
