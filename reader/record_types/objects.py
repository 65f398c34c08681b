"""Objects and masks of an image, moved as its pixels are by crop, flip, resize and warp.

Places are those of the edges of pixels: x and y in [0, width] and [0, height]. A transform that
moves pixels has a method `places`, an affine map of them; one that does not move any has
`keeps_places`. With others, objects would be wrong, so they are refused.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reader.options import ReadOptions
from reader.record_types.base import ElementSpec
from reader.transforms.augmentation import Steps
from shard_format import DamageError, Feature, UsageError
from shard_format.run_lengths import decode_run_lengths

GROUP, MASK = "objects", "segmentation_mask"
_BBOX, _AREA, _RUNS = f"{GROUP}/bbox", f"{GROUP}/area", f"{GROUP}/segmentation"
_IGNORED = 255  # in a mask, of what comes from outside of the image

_EDGE = 1e-6  # of a pixel: what is on the edge of a frame is in it, however numbers are rounded

Map = npt.NDArray[np.float64]  # [3, 3]: (x, y, 1) of a column vector -> the same
Mask = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class MovedObjects:
    """How objects and masks follow their images.

    Attributes:
        steps: The transforms of the images, the first of which is a crop.
        image_size: Height and width of every image.
        min_visible: Share of a box that is in the image, below which its object is dropped.
    """

    steps: Steps
    image_size: int
    min_visible: float

    def specs(self, name: str, spec: ElementSpec) -> ElementSpec:
        """Describes a feature behind it."""
        size = (self.image_size, self.image_size)
        if name == MASK:
            return ElementSpec((*size, 1), "uint8")
        if name == _RUNS:
            return ElementSpec((None, *size), "uint8", lists=1)
        return spec

    def moved(
        self,
        values: Mapping[str, Any],
        sizes: npt.NDArray[np.int32],
        crops: npt.NDArray[np.int32],
        random: npt.NDArray[np.float32],
    ) -> dict[str, Any]:
        """The further features of [n] images, with objects and masks where their pixels are.

        Args:
            values: By the names of the features.
            sizes: [n, 2], height and width of the stored images.
            crops: [n, 4], top, left, height and width of what is wanted of the images.
            random: [n, num_random], as the transforms of the images have them.

        Raises:
            DamageError: Run lengths, or a mask, are not those of an image of its size.
        """
        moved = dict(values)
        images = [
            _Moved(self._frames(crop, drawn), size)
            for size, crop, drawn in zip(sizes.tolist(), crops.tolist(), random, strict=True)
        ]
        if MASK in moved:
            masks = zip(images, moved[MASK], strict=True)
            moved[MASK] = np.stack([image.mask(mask, _IGNORED) for image, mask in masks])
        if _BBOX not in moved:
            return moved
        names = [name for name in moved if name.startswith(f"{GROUP}/")]
        placed = [
            self._objects({name: moved[name][row] for name in names}, image)
            for row, image in enumerate(images)
        ]
        return moved | {name: [one[name] for one in placed] for name in names}

    def _frames(self, crop: Sequence[int], random: npt.NDArray[np.float32]) -> list[_Frame]:
        """What an image goes through: its crop, its resizing, and the transforms around it."""
        top, left, *size = crop
        frames = [_Frame(_affine(1, 0, -left, 0, 1, -top), tuple(size))]
        frames += self._transforms("decoded", frames[0].size, random)
        height, width = frames[-1].size
        resized = (self.image_size, self.image_size)
        frames.append(_Frame(_affine(resized[1] / width, 0, 0, 0, resized[0] / height, 0), resized))
        return [*frames, *self._transforms("resized", resized, random)]

    def _transforms(
        self, stage: str, size: tuple[int, ...], random: npt.NDArray[np.float32]
    ) -> list[_Frame]:
        frames, used = [], 0
        for transform in self.steps.transforms:
            begin, used = used, used + transform.num_random
            if transform.stage == stage and hasattr(transform, "places"):
                places = transform.places(random[begin:used], size)
                frames.append(_Frame(_affine(*places), size))
        return frames

    def _objects(self, own: Mapping[str, Any], image: _Moved) -> dict[str, Any]:
        """The objects of one image."""
        inside, share, scale = image.boxes(own[_BBOX])
        kept = (share > 0) & (share >= self.min_visible)
        moved: dict[str, Any] = {}
        for name, value in own.items():
            if isinstance(value, list):
                moved[name] = [one for one, stays in zip(value, kept, strict=True) if stays]
            else:
                moved[name] = value[kept]
        moved[_BBOX] = (inside[kept] / self.image_size).astype(np.float32)
        if _AREA in own:
            moved[_AREA] = (own[_AREA] * share * scale)[kept].astype(np.float32)
        if _RUNS in own:
            masks = [mask_of(bytes(runs), image.size) for runs in moved[_RUNS]]
            empty = np.zeros((0, self.image_size, self.image_size), np.uint8)
            moved[_RUNS] = np.stack([image.mask(one, 0) for one in masks]) if masks else empty
        return moved


class _Frame(NamedTuple):
    """A step of an image, which cuts off what leaves its frame.

    Attributes:
        map: From places before the step to places behind it.
        size: (height, width) behind the step.
    """

    map: Map
    size: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class _Moved:
    """Where the pixels of one image went.

    Attributes:
        frames: The steps that it went through.
        size: [height, width] of the stored image.
    """

    frames: Sequence[_Frame]
    size: Sequence[int]

    def boxes(self, stored: npt.NDArray[np.float32]) -> tuple[Any, Any, float]:
        """([n, 4] in pixels, [n], scale): boxes around what is left of stored ones.

        The second is the share of each that no frame cut off, the third what became of areas.
        """
        height, width = self.size
        boxes = stored.astype(np.float64) * (height, width, height, width)
        share, scale = np.ones(len(boxes)), 1.0
        for step, (height, width) in self.frames:
            corners = boxes[:, [1, 0, 3, 0, 3, 2, 1, 2]].reshape(-1, 4, 2)
            places = (corners @ step[:2, :2].T + step[:2, 2])[..., ::-1]
            around = np.concatenate([places.min(axis=1), places.max(axis=1)], axis=1)
            boxes = np.clip(around, 0, (height, width, height, width))
            share = share * _share(boxes, around)
            scale *= abs(np.linalg.det(step[:2, :2]))
        return boxes, share, scale

    def mask(self, stored: Mask, outside: int) -> Mask:
        """[height, width, ...] of the last frame: each pixel has the value at its middle.

        Raises:
            DamageError: The stored mask is of another size than the image.
        """
        if list(stored.shape[:2]) != self.size:
            raise DamageError(
                f"A mask has {stored.shape[1]} x {stored.shape[0]} pixels, and its image "
                f"{self.size[1]} x {self.size[0]}. Build the set again."
            )
        rows, columns, inside = self._sources
        values = stored[rows, columns]
        return np.where(inside.reshape(inside.shape + (1,) * (values.ndim - 2)), values, outside)

    @functools.cached_property
    def _sources(self) -> tuple[Any, Any, Any]:
        """(rows, columns, inside): the pixel that each one of the last frame shows, if any."""
        height, width = self.frames[-1].size
        # Of one axis each until a map mixes them, which few do.
        x, y = np.arange(width)[None] + 0.5, np.arange(height)[:, None] + 0.5
        inside: Any = np.ones((height, width), np.bool_)
        for step, (height, width) in reversed(self.frames):
            inside = (
                inside & (x > -_EDGE) & (x < width + _EDGE) & (y > -_EDGE) & (y < height + _EDGE)
            )
            (a, b, c), (d, e, f), _ = np.linalg.inv(step).tolist()
            x, y = (a * x + c + (b * y if b else 0)), (e * y + f + (d * x if d else 0))
        last = self.size[0] - 1, self.size[1] - 1
        rows, columns = (np.floor(one + _EDGE).astype(np.intp) for one in (y, x))
        return np.clip(rows, 0, last[0]), np.clip(columns, 0, last[1]), inside


def is_placed(feature: Feature) -> bool:
    """Whether a feature has places in the image."""
    return feature.name == MASK or feature.name.startswith(f"{GROUP}/")


def moved_objects(
    steps: Steps, options: ReadOptions, names: Collection[str]
) -> MovedObjects | None:
    """How objects and masks follow images; None where these are as stored.

    Args:
        steps: The transforms of the images.
        options: What was asked for.
        names: Names of the features that are handed out.

    Raises:
        UsageError: A transform does not say where it moves pixels, or moves those of images that
            are not resized; or there are objects without their boxes.
    """
    for transform in steps.transforms:
        if transform.stage == "crop" or getattr(transform, "keeps_places", False):
            continue
        name = type(transform).__name__
        if not hasattr(transform, "places"):
            raise UsageError(
                f"{name} in augment does not say where it moves objects, in reader.load. Leave it, "
                "or the objects and masks out of features; a transform of your own may have "
                "keeps_places=True, or a method places."
            )
        if options.image_size is None:
            raise UsageError(
                f"{name} in augment moves objects, but image_size is None in reader.load. Pass "
                "one, such as image_size=640, or leave objects and masks out of features."
            )
    if options.image_size is None:
        return None
    if _BBOX not in names and any(name.startswith(f"{GROUP}/") for name in names):
        raise UsageError(
            f"features of objects without {_BBOX!r} in reader.load: their boxes say which objects "
            f"an image still shows. Add {_BBOX!r}, or ask for {GROUP!r}."
        )
    return MovedObjects(steps, options.image_size, options.min_visible)


def mask_of(counts: bytes, size: Sequence[int]) -> Mask:
    """[height, width] of 0 and 1: the pixels of run lengths, as COCO writes them.

    Raises:
        DamageError: They are not those of an image of this size.
    """
    height, width = size
    try:
        runs = decode_run_lengths(counts)
    except ValueError:
        runs = [-1]
    if counts and (min(runs, default=-1) < 0 or sum(runs) != height * width):
        raise DamageError("Run lengths are not those of their image. Build the set again.")
    if not counts:
        return np.zeros((height, width), np.uint8)
    ones = np.resize(np.array([0, 1], np.uint8), len(runs))
    return np.repeat(ones, runs).reshape(width, height).T


def _affine(a: float, b: float, c: float, d: float, e: float, f: float) -> Map:
    return np.array([[a, b, c], [d, e, f], [0, 0, 1]], np.float64)


def _share(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> Any:
    """[n]: the share of the area of boxes that parts of them have; 0 of an empty box."""
    areas, parts = ((box[:, 2:] - box[:, :2]).prod(axis=1) for box in (whole, part))
    return np.divide(parts, areas, out=np.zeros(len(areas)), where=areas > 0)
