"""The strips of images in docs/transforms.md: what every transform makes of a few photographs.

    python docs/transforms/make_strips.py

Each strip shows the image without the transform, then with the draws of five epochs. Run it again
when a transform changes.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from reader.graph import order as graph_order
from reader.graph.record_types.image import decoding_parser
from reader.record_types.features import TargetLabels
from reader.record_types.further import FurtherFeatures
from reader.record_types.image import ImageParser
from reader.transforms import TRANSFORMS, HorizontalFlip, RandomErasing, VerticalFlip
from reader.transforms.augmentation import Steps, find_transforms
from reader.transforms.normalization import Normalization
from reader.transforms.rand_augment import OPERATIONS
from shard_format import Feature

REPOSITORY = Path(__file__).parents[2]
SIDE, GAP, QUALITY = 112, 4, 85  # pixels, pixels, of JPEG
NUM_DRAWS = 5
SEED = 3  # one whose draws show the range of every transform
# One photograph each of things that have a left and an upper side.
SUBJECTS = ("hat", "shoes", "t-shirt", "dress", "pants", "shorts")

# Those that leave some images as they are do so less often here.
SHOWN = {
    "horizontal_flip": HorizontalFlip(0.6),
    "vertical_flip": VerticalFlip(0.6),
    "random_erasing": RandomErasing(probability=1.0),
}


def main() -> None:
    """Writes NAME.jpg for every transform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, default=REPOSITORY / "samples" / "clothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--side", type=int, default=SIDE, help="of an image, in pixels")
    asked = parser.parse_args()
    photographs = [_photograph(asked.samples / subject) for subject in SUBJECTS]
    pages = Pages(photographs, asked.side)
    for name in TRANSFORMS:
        pages.write(asked.out / f"{name}.jpg", _OWN.get(name, Pages.draws)(pages, name))
    pages.write(asked.out / "normalization.jpg", pages.normalization())
    pages.write(asked.out / "rand_augment_operations.jpg", pages.operations())


@dataclasses.dataclass(frozen=True)
class Pages:
    """Makes rows of images [side, side, 3] uint8.

    Attributes:
        photographs: JPEG files.
        side: Of every image in pixels.
    """

    photographs: list[bytes]
    side: int

    def draws(self, name: str) -> list[list[Any]]:
        """The first photograph, and what the transform makes of it in some epochs."""
        transform = SHOWN.get(name, TRANSFORMS[name]())
        is_crop = transform.stage == "crop"
        augment = [transform] if is_crop else ["none", transform]
        epochs = NUM_DRAWS if transform.num_random else 1
        changed = self._made(augment, [0] * epochs, range(epochs))
        return [[self._whole() if is_crop else self._plain(), *changed]]

    def mixed(self, name: str) -> list[list[Any]]:
        """A batch, and what is made of it."""
        count = len(self.photographs)
        augments: list[list[Any]] = [["none"], ["none", name]]
        return [[*self._made(augment, range(count), [0] * count)] for augment in augments]

    def planes(self, name: str) -> list[list[Any]]:
        """A photograph and its three planes, red, green and blue."""
        (planes,) = self._made(["none", name], [0], [0])
        grey = [np.repeat(plane[:, :, None], 3, axis=2) for plane in planes]
        return [[self._plain(), *grey]]

    def normalization(self) -> list[list[Any]]:
        """Photographs; [-2, 2] of their z-score as black to white; and [0, 1] of their min-max."""
        numbers = range(len(self.photographs))
        pixels = self._made(["none"], numbers, [0] * len(numbers))
        values = pixels.reshape(-1, 3)
        low = values.min(axis=0)
        zscore = Normalization("zscore", tuple(values.mean(axis=0)), tuple(values.std(axis=0)))
        minmax = Normalization("minmax", tuple(low), tuple(values.max(axis=0) - low))
        rows = [list(pixels)]
        for normalization, shift, scale in ((zscore, 2.0, 255 / 4), (minmax, 0.0, 255.0)):
            images = self._made(["none", normalization], numbers, [0] * len(numbers))
            shown = [np.clip((image + shift) * scale, 0, 255).astype(np.uint8) for image in images]
            rows.append(shown)
        return rows

    def operations(self) -> list[list[Any]]:
        """The fourteen operations of RandAugment at magnitude 9, in their order."""
        image = tf.constant(self._plain())
        images = [apply(image, 0.9, tf.constant(1.0)).numpy() for apply in OPERATIONS.values()]
        return [images[:7], images[7:]]

    def write(self, path: Path, rows: list[list[Any]]) -> None:
        """The rows as one JPEG, on white."""
        step = self.side + GAP
        width, height = max(map(len, rows)) * step - GAP, len(rows) * step - GAP
        page = np.full((height, width, 3), 255, np.uint8)
        for y, row in enumerate(rows):
            for x, image in enumerate(row):
                page[y * step : y * step + self.side, x * step : x * step + self.side] = image
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(page).save(path, quality=QUALITY, optimize=True)

    def _whole(self) -> Any:
        """The first photograph, within white margins."""
        page = Image.new("RGB", (self.side, self.side), "white")
        photograph = Image.open(io.BytesIO(self.photographs[0])).convert("RGB")
        photograph.thumbnail(page.size)
        corner = [(self.side - length) // 2 for length in photograph.size]
        page.paste(photograph, (corner[0], corner[1]))
        return np.asarray(page)

    def _plain(self) -> Any:
        return self._made(["none"], [0], [0])[0]

    def _made(self, augment: list[Any], numbers: Sequence[int], epochs: Sequence[int]) -> Any:
        """[n, ...]: photographs as the reader makes them, each in an epoch."""
        image = Feature("image", "image", (-1, -1, 3), "jpeg")
        parser = ImageParser(
            features=(image,),
            image=image,
            labels=TargetLabels({"label": Feature("label", "class_label", (), "", SUBJECTS)}),
            further=FurtherFeatures(),
            steps=Steps(find_transforms(augment)),
            image_size=self.side,
            stored_size=(None, None),
            dtype="uint8",
            normalization=None,
        )
        records = decoding_parser(parser)
        labels = tf.constant(list(numbers), tf.int64)
        count = max(1, records.num_random)
        in_epochs = tf.constant(list(epochs), tf.int64)
        random = graph_order.uniforms(labels, count, SEED, in_epochs)
        features = {"image": [self.photographs[number] for number in numbers], "label": labels}
        dataset = tf.data.Dataset.from_tensor_slices((features, random)).map(records.decode)
        dataset = dataset.batch(len(numbers))
        dataset = dataset.map(records.finish) if records.mixes else dataset
        ((images, _),) = dataset
        return images.numpy()


_OWN: dict[str, Callable[[Pages, str], list[list[Any]]]] = {
    "mixup": Pages.mixed,
    "cutmix": Pages.mixed,
    "channels_first": Pages.planes,
}


def _photograph(folder: Path) -> bytes:
    """The largest photograph of a class."""
    return max(folder.glob("*-*-*-*-*.jpg"), key=lambda path: path.stat().st_size).read_bytes()


if __name__ == "__main__":
    main()
