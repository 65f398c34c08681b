"""What `augment` takes: names, lists, transforms of the user's own; and what it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import reader
from reader.transforms import (
    CenterCrop,
    ChannelsFirst,
    HorizontalFlip,
    Mixup,
    RandAugment,
    RandomResizedCrop,
    Rotation,
)
from reader.transforms.augmentation import Steps, find_transforms
from reader.transforms.normalization import Normalization
from shard_format import UsageError
from tests.fixtures.proofs import each_value_once, proof

PIXELS = {
    "count": 9,
    "mean": [100.0, 120.0, 140.0],
    "std": [50.0, 60.0, 25.0],
    "min": [0, 0, 0],
    "max": [255, 255, 255],
}


@dataclasses.dataclass(frozen=True)
class Own:
    """Adds a random number of grey levels; every part of it may be made wrong."""

    stage: str = "resized"
    num_random: Any = 1
    result: Any = None

    def __call__(self, example: Any, random: Any) -> Any:
        if self.result is not None:
            return self.result(example)
        return {**example, "image": tf.minimum(example["image"] + 20 * random[..., 0], 255.0)}


class OwnLayout(Own):
    def shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (shape[2], shape[0], shape[1])


def load(directory: Path, augment: Any, **options: Any) -> reader.Stream:
    arguments: dict[str, Any] = {"batch_size": 10, "image_size": 8, "epochs": 1, **options}
    return reader.load(directory, augment=augment, **arguments)


@pytest.mark.parametrize(
    ("augment", "expected"),
    [
        ("none", [CenterCrop()]),
        ("standard", [RandomResizedCrop(), HorizontalFlip()]),
        ("standard,mixup", [RandomResizedCrop(), HorizontalFlip(), Mixup()]),
        (" center_crop , rotation", [CenterCrop(), Rotation()]),
        (["none", Rotation(5)], [CenterCrop(), Rotation(5)]),
        ((CenterCrop(0.5), "rotation"), [CenterCrop(0.5), Rotation()]),
        (["standard", RandAugment(1, 3), "channels_first"],
         [RandomResizedCrop(), HorizontalFlip(), RandAugment(1, 3), ChannelsFirst()]),
        (RandomResizedCrop(0.5), [RandomResizedCrop(0.5)]),
    ],
)  # fmt: skip
def test_what_augment_may_be(augment: Any, expected: list[Any]) -> None:
    assert list(find_transforms(augment)) == expected


@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ("standard,rand_augmnt", "'rand_augmnt' in reader.load. Did you mean 'rand_augment'"),
        ("standard,,mixup", "Unknown augment '' .* Choices: "),
        (["standard", "hues"], "Did you mean 'hue'"),
        (["standard", Rotation], r"The class Rotation is not .*Pass an instance: Rotation\(\)"),
        (["standard", 3], "^3 is not a transform in augment .* stage and num_random"),
        (None, "^None is not a transform in augment .* stage and num_random"),
        (["standard", lambda example, random: example], "is not a transform .* stage and"),
        (["standard", Own(stage="end")], "the unknown stage 'end'.* Choose one of crop, decoded"),
        (["standard", Own(num_random=1.5)], "num_random=1.5 and is not a transform in augment"),
        (["standard", Own(stage="layout")], "layout has no method shape"),
        ("horizontal_flip", "does not begin with a crop.* Begin with center_crop or"),
        ([], "does not begin with a crop"),
        (
            "horizontal_flip,center_crop"
        , r"CenterCrop \(crop\) comes after HorizontalFlip \(decoded"),
        ("none,rotation,vertical_flip", "order of stages .*Put VerticalFlip before it"),
        ("none,mixup,hue", r"Hue \(resized\) comes after Mixup \(batch\)"),
        ("standard,none", r"CenterCrop \(crop\) comes after HorizontalFlip"),
        ("center_crop,random_resized_crop", "CenterCrop and RandomResizedCrop are two crops"),
        (["none", "channels_first", Normalization("own", (0, 0, 0), (1, 1, 1))],
         r"Normalization \(values\) comes after ChannelsFirst \(layout\)"),
    ],
)  # fmt: skip
def test_what_augment_may_not_be(tiny: Path, augment: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(tiny, augment)


def test_a_transform_of_ones_own(tiny: Path) -> None:
    plain = load(tiny, "none", dtype="float32", shuffle="off")
    changed = load(tiny, ["none", Own()], dtype="float32", shuffle="off")
    for (before, labels), (after, same) in zip(plain.dataset, changed.dataset, strict=True):
        assert (labels.numpy() == same.numpy()).all()
        added = (after - before).numpy().reshape(10, -1)
        np.testing.assert_allclose(added, np.broadcast_to(added[:, :1], added.shape), atol=1e-3)
        assert len(np.unique(added[:, 0].round(3))) > 5


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (Own(result=lambda example: example["image"]), "not a dictionary of image, label"),
        (Own(result=lambda example: {"image": example["image"]}),
         "Own of .* returned image, not a dictionary of image, label"),
        (Own("decoded", result=lambda example: {**example, "image": example["image"] / 2}),
         "Own of the stage decoded returned float.*, not images of uint8"),
        (Own(result=lambda example: {**example, "image": example["image"][:4]}),
         r"Own .* returned \(4, 8, 3\), not images of shape \(8, 8, 3\)"),
        (Own("batch", result=lambda example: {**example, "image": example["image"][:, :4]}),
         r"the stage batch returned .*, not images of shape \(10, 8, 8, 3\)"),
        (Own("crop", result=lambda example: {**example, "image": 1}), "dictionary of box, label"),
        (Own("crop", result=lambda example: {**example, "box": tf.zeros([4])}),
         r"Own of the stage crop returned \(4,\) of float32, not a box \[4\] of int32"),
        (Own(
            "crop"
        , result=lambda example: {**example, "box": [0, 0, 4]}), r"returned \(3,\) of int32"),
        (Own("decoded", result=lambda example: {**example, "image": example["image"][..., :1]}),
         r"the stage decoded returned .*, not images of shape \[height, width, 3\]"),
        (OwnLayout("layout", result=lambda example: example),
         r"OwnLayout returned shape \(8, 8, 3\), not \(3, 8, 8\) as its method shape says"),
    ],
)  # fmt: skip
def test_a_transform_of_ones_own_that_is_wrong(tiny: Path, own: Own, message: str) -> None:
    crop = [] if own.stage == "crop" else ["none"]
    with pytest.raises(UsageError, match=message):
        load(tiny, [*crop, own], epochs=None)


@pytest.mark.parametrize(
    "augment",
    [
        "random_resized_crop,vertical_flip,rotation,scale,hue,saturation,random_erasing",
        pytest.param(["standard", RandAugment(2, 9), "random_erasing"], marks=proof),
    ],
)
def test_a_image_is_the_same_whatever_batch_it_is_in(make_set: Any, augment: Any) -> None:
    directory = make_set({"train": (12,)}, sizes=((40, 60), (1, 1), (3, 200)))

    def make_images(batch_size: int, shuffle: str, seed: int) -> list[dict[int, bytes]]:
        stream = load(
            directory, augment, batch_size=batch_size, shuffle=shuffle, seed=seed, epochs=2
        )
        records = [
            (int(label), image.numpy().tobytes())
            for batch in stream.dataset
            for image, label in zip(*batch, strict=True)
        ]
        return [dict(records[:12]), dict(records[12:])]

    first, second = make_images(12, "window", 5)
    assert make_images(3, "off", 5) == [first, second]
    assert sum(first[number] != second[number] for number in first) > 8
    assert make_images(12, "window", 6)[0] != first


def test_draws_of_one_transform_do_not_depend_on_those_behind(tiny: Path) -> None:
    """A transform that changes nothing, put at the end, changes nothing."""
    plain, more = (
        [image.numpy() for image, _ in load(tiny, augment, seed=3).dataset]
        for augment in ("standard", ["standard", Rotation(0)])
    )
    for one, other in zip(plain, more, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize(
    ("dtype", "normalize", "mixed"),
    each_value_once(["uint8", "float32"], ["none", "zscore", "none"], [[], ["mixup"], ["mixup"]]),
)
def test_channels_first_of_everything(
    make_set: Any, dtype: str, normalize: str, mixed: Any
) -> None:
    directory = make_set({"train": (20,)}, statistics={"pixels": PIXELS})
    options: dict[str, Any] = {"dtype": dtype, "normalize": normalize, "seed": 1}
    last = load(directory, ["standard", *mixed], **options)
    first = load(directory, ["standard", *mixed, "channels_first"], **options)
    assert last.info.element_shape == (8, 8, 3) and first.info.element_shape == (3, 8, 8)
    expected = "float32" if normalize == "zscore" else dtype
    assert first.info.dtype == last.info.dtype == expected
    assert first.dataset.element_spec[0] == tf.TensorSpec((None, 3, 8, 8), expected)
    for (one, _), (other, _) in zip(last.dataset, first.dataset, strict=True):
        assert (one.numpy().transpose(0, 3, 1, 2) == other.numpy()).all()


def test_normalization_commutes_with_mixing(make_set: Any) -> None:
    """It comes after it, on images in [0, 255]; the order would show nowhere but here."""
    directory = make_set({"train": (20,)}, statistics={"pixels": PIXELS})
    plain = load(directory, "standard,mixup", dtype="float32")
    scaled = load(directory, "standard,mixup", normalize="zscore")
    for (pixels, _), (mixed, _) in zip(plain.dataset, scaled.dataset, strict=True):
        expected = (pixels.numpy() - PIXELS["mean"]) / PIXELS["std"]
        np.testing.assert_allclose(mixed, expected, atol=1e-4)


def test_a_normalization_of_ones_own(make_set: Any) -> None:
    directory = make_set({"train": (20,)}, statistics={"pixels": PIXELS})
    own = Normalization("imagenet", (123.7, 116.3, 103.5), (58.4, 57.1, 57.4))
    stream = load(directory, ["none", own])
    assert stream.info.normalization == own and stream.info.dtype == "float32"
    for shift in (127.5, None, ("a", "b", "c"), (1, 2)):
        with pytest.raises(UsageError, match=r"shift is .* Pass three finite numbers"):
            Normalization("own", shift, (1, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="normalized 2 times"):
        load(directory, ["none", own], normalize="zscore")


def test_images_of_stored_size_take_all_but_crops(tiny: Path) -> None:
    flipped = load(tiny, [HorizontalFlip(1), "channels_first"], image_size=None, shuffle="off")
    plain = load(tiny, "none", image_size=None, shuffle="off")
    assert flipped.info.element_shape == (3, 24, 32)
    for (one, _), (other, _) in zip(plain.dataset, flipped.dataset, strict=True):
        assert (one.numpy()[:, :, ::-1].transpose(0, 3, 1, 2) == other.numpy()).all()
    with pytest.raises(
        UsageError, match="augment='center_crop' crops images, but image_size is None"
    ):
        load(tiny, "center_crop", image_size=None)


def test_images_of_stored_size_are_warped(tiny: Path) -> None:
    """A warp has to know the size when its graph is made, and no decoder tells it."""
    stream = load(tiny, "rotation,scale,rand_augment", image_size=None)
    make_images, _ = next(iter(stream.dataset))
    assert make_images.shape == (10, 24, 32, 3) and len(np.unique(make_images)) > 10


def test_stored_sizes_that_differ_cannot_be_warped(make_set: Any) -> None:
    directory = make_set({"train": (4,)}, sizes=((24, 32), (16, 40)))
    options: dict[str, Any] = {"batch_size": 1, "image_size": None, "shuffle": "off"}
    flipped = load(directory, [HorizontalFlip(1), "channels_first"], **options)
    plain = load(directory, "none", **options)
    for (one, _), (other, _) in zip(plain.dataset, flipped.dataset, strict=True):
        assert (one.numpy()[:, :, ::-1].transpose(0, 3, 1, 2) == other.numpy()).all()
    with pytest.raises(UsageError, match="Rotation in augment needs images of one size, but"):
        load(directory, "rotation", **options)


def test_random_numbers_are_dealt_in_order() -> None:
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Noting:
        stage: str
        num_random: int

        def __call__(self, example: Any, random: Any) -> Any:
            seen.append(random.numpy().tolist())
            return example

    steps = Steps((Noting("decoded", 2), Noting("resized", 0), Noting("batch", 1)))
    assert steps.num_random == 3
    image = tf.zeros([2, 2, 3], tf.uint8)
    steps.apply("decoded", {"image": image}, tf.constant([1.0, 2.0, 3.0]))
    steps.apply("batch", {"image": image[None]}, tf.constant([[1.0, 2.0, 3.0]]))
    assert seen == [[1.0, 2.0], [[3.0]]]
