"""Objects and masks of an image, moved as its pixels are: turned upright, cut, scaled, padded.

Run lengths are those of COCO, in column order, and polygons are drawn by the same program as there
(pycocotools): what is not resized has the bits of the source.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image
from pycocotools import mask as coco_mask

from beam_jobs.corpus.annotations.objects import (
    BAD_SEGMENTATION,
    CUT_OFF,
    DROPPED,
    NO_CLASS,
    OUTSIDE,
    PROBLEMS,
    AnnotatedObject,
    ImageAnnotations,
)
from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode.orientation import ORIENTATION_TAG, oriented
from beam_jobs.images.resize import ResizeGeometry, margins
from foundation import storage
from shard_format import Feature
from shard_format.run_lengths import decode_run_lengths

Mask = npt.NDArray[np.uint8]  # [height, width]

OBJECT_FEATURES = (
    Feature("objects/bbox", "bbox", (-1, 4)),
    Feature("objects/area", "float32", (-1,)),
    Feature("objects/is_crowd", "bool", (-1,)),
    Feature("objects/segmentation", "text", (-1,)),
)
MASK_FEATURE = Feature("segmentation_mask", "image", (-1, -1, 1), encoding="png")
_TURNED = (5, 6, 7, 8)  # orientations of EXIF with width and height exchanged
_MIRRORED = ((2, 3, 6, 7), (3, 4, 7, 8))  # those with x, and those with y, in the other direction
_NO_CLASS_VALUE = 255  # of the margins of a mask, which readers of segmentations ignore
_MASK_MODES = ("L", "P", "1")  # of Pillow: one channel of 8 bits, or of numbers of colours


@functools.cache
def problem_field(problem: str) -> pa.Field:
    """The column of the ledger that counts objects with a problem."""
    return pa.field(DROPPED + problem, pa.int32(), nullable=False)


class _Span(NamedTuple):
    """What an object covers along one axis, in pixels but for the ends.

    Attributes:
        begin: Where what is visible begins, as a share of the stored image.
        end: Where it ends.
        length: Length in the annotated image.
        inside: What the frame of that image has of it.
        whole: The same in pixels of the stored image.
        shown: What is visible of it there.
    """

    begin: float
    end: float
    length: float
    inside: float
    whole: float
    shown: float


class _Axis(NamedTuple):
    """How pixels move along the width or the height of an image.

    Attributes:
        source: Place of its coordinate in a point of the annotated image.
        mirrored: Whether the upright image has the other direction.
        upright: Pixels of the upright image.
        margin: Pixels that are cut off before what is kept.
        scale: The factor that this is scaled by.
        begin: Where it begins in the stored image.
        end: Where it ends.
        stored: Pixels of the stored image.
    """

    source: int
    mirrored: bool
    upright: int
    margin: int
    scale: float
    begin: int
    end: int
    stored: int

    def turned(self, at: float) -> float:
        """A coordinate in the upright image."""
        return self.upright - at if self.mirrored else at

    def moved(self, at: float) -> float:
        """A coordinate of the upright image in the stored one, which may be outside of it."""
        return (at - self.margin) * self.scale + self.begin

    def span(self, low: float, high: float) -> _Span:
        """What is between two coordinates of the annotated image."""
        if self.mirrored:
            low, high = self.turned(high), self.turned(low)
        first, last = max(low, 0), min(high, self.upright)
        if first >= last:  # outside
            return _Span(0, 0, high - low, 0, 0, 0)
        whole = self.moved(last) - self.moved(first)
        begin, end = max(self.moved(low), self.begin), min(self.moved(high), self.end)
        shown = max(0, end - begin)
        return _Span(begin / self.stored, end / self.stored, high - low, last - first, whole, shown)


@dataclasses.dataclass(frozen=True)
class _Move:
    """How pixels of an image move into the one that is stored.

    Attributes:
        width: Width of the annotated image.
        height: Height likewise.
        orientation: Its EXIF orientation; 1 is upright.
        geometry: What is done to the upright image.
    """

    width: int
    height: int
    orientation: int
    geometry: ResizeGeometry

    @functools.cached_property
    def upright(self) -> tuple[int, int]:
        """Width and height of the upright image."""
        size = (self.width, self.height)
        return size[::-1] if self.orientation in _TURNED else size

    @functools.cached_property
    def changes(self) -> bool:
        """Whether pixels are elsewhere behind it."""
        own = self.geometry
        return self.orientation != 1 or not own.cut == own.size == own.canvas == self.upright

    @functools.cached_property
    def axes(self) -> tuple[_Axis, _Axis]:
        """That of the width, and that of the height."""
        own, is_turned = self.geometry, self.orientation in _TURNED
        cut, begin = margins(self.upright, own.cut), margins(own.canvas, own.size)
        width, height = (
            _Axis(
                source=1 - axis if is_turned else axis,
                mirrored=self.orientation in _MIRRORED[axis],
                upright=self.upright[axis],
                margin=cut[axis],
                scale=own.size[axis] / own.cut[axis],
                begin=begin[axis],
                end=begin[axis] + own.size[axis],
                stored=own.canvas[axis],
            )
            for axis in (0, 1)
        )
        return width, height

    def polygon(self, points: Sequence[float]) -> list[float]:
        """x, y, x, y, ... of the annotated image in the stored one."""
        columns = (
            [axis.moved(axis.turned(at)) for at in points[axis.source :: 2]] for axis in self.axes
        )
        return [at for point in zip(*columns, strict=True) for at in point]

    def mask(self, mask: Mask, outside: int = 0) -> Mask:
        """A mask as the image is; no pixel has a value that is not in it, or `outside`."""
        own = self.geometry
        mask = oriented(mask, self.orientation)
        left, top = margins(self.upright, own.cut)
        mask = mask[top : top + own.cut[1], left : left + own.cut[0]]
        if own.size != own.cut:
            mask = cv2.resize(
                np.ascontiguousarray(mask), own.size, interpolation=cv2.INTER_NEAREST_EXACT
            )
        canvas = np.full(own.canvas[::-1], outside, np.uint8)
        left, top = margins(own.canvas, own.size)
        canvas[top : top + own.size[1], left : left + own.size[0]] = mask
        return canvas


@dataclasses.dataclass(frozen=True)
class AnnotationPlacer:
    """Makes features of what annotates an image.

    Attributes:
        form: A key of `corpus.annotations.FORMATS`.
        classes: Names of the classes of objects.
        min_visible: Share of a box that is in the image, below which its object is dropped.
    """

    form: str
    classes: tuple[str, ...]
    min_visible: float

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that images have."""
        if self.form == "masks":
            return (MASK_FEATURE,)
        label = Feature("objects/label", "class_label", (-1,), class_names=self.classes)
        return (*OBJECT_FEATURES, label)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that are counted."""
        return () if self.form == "masks" else PROBLEMS

    def place(
        self,
        said: str | bytes,
        size: tuple[int, int],
        orientation: int,
        geometry: ResizeGeometry,
    ) -> tuple[dict[str, Any], Counter[str]]:
        """Values of the features, and numbers of the objects that are left out, by problem.

        Args:
            said: The annotations as JSON, or the file of the mask.
            size: Width and height in the file.
            orientation: How the file is turned to be upright.
            geometry: What is done to the upright image.

        Raises:
            Rejection: They are of an image of another size, or the mask cannot be used.
        """
        image = ImageAnnotations() if isinstance(said, bytes) else ImageAnnotations.from_json(said)
        if self.form == "masks":
            mask = _mask_of(said) if isinstance(said, bytes) else _read_mask(image.mask)
            move = _move((mask.shape[1], mask.shape[0]), size, orientation, geometry)
            return {MASK_FEATURE.name: _png(move.mask(mask, _NO_CLASS_VALUE))}, Counter()
        if image.width and image.height:
            move = _move((image.width, image.height), size, orientation, geometry)
            return self._placed(image.objects, move)
        # Programs that draw boxes, and store no size, show the image upright.
        upright = size[::-1] if orientation in _TURNED else size
        objects = image.objects
        if self.form in ("yolo", "open-images"):
            objects = tuple(_in_pixels(one, upright) for one in objects)
        return self._placed(objects, _Move(*upright, 1, geometry))

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes)}

    def _is_usable(self, one: AnnotatedObject) -> bool:
        return not one.problem and one.label in self._numbers

    def _placed(
        self, objects: Sequence[AnnotatedObject], move: _Move
    ) -> tuple[dict[str, Any], Counter[str]]:
        problems = Counter(one.problem or NO_CLASS for one in objects if not self._is_usable(one))
        usable = [one for one in objects if self._is_usable(one)]
        boxes, areas, crowds, segmentations, labels = [], [], [], [], []
        for one in usable:
            place = _place(one, move)
            placed = place.problem(self.min_visible) or _segmented(one, place, move)
            if isinstance(placed, str):
                problems[placed] += 1
                continue
            area, segmentation = placed
            boxes.append(place.box)
            areas.append(area)
            crowds.append(one.is_crowd)
            segmentations.append(segmentation)
            labels.append(self._numbers[one.label])
        values = {
            "objects/bbox": np.array(boxes, np.float32).reshape(-1, 4),
            "objects/area": np.array(areas, np.float32),
            "objects/is_crowd": np.array(crowds, np.int64),
            "objects/segmentation": segmentations,
            "objects/label": np.array(labels, np.int64),
        }
        return values, problems


def orientation_of(data: bytes) -> int:
    """EXIF orientation of the bytes of an image that is not upright."""
    with Image.open(io.BytesIO(data)) as image:
        tags: Mapping[int, Any] = getattr(image, "tag_v2", None) or image.getexif()
        return int(tags.get(ORIENTATION_TAG, 1))


def _move(
    own: tuple[int, int], size: tuple[int, int], orientation: int, geometry: ResizeGeometry
) -> _Move:
    """How annotations of an image of a size move.

    Raises:
        Rejection: The image has another size.
    """
    turned = orientation in _TURNED
    if own == size:
        return _Move(*own, orientation, geometry)
    if own == (size[::-1] if turned else size):  # of the upright image
        return _Move(*own, 1, geometry)
    detail = f"it has {size[0]} x {size[1]} pixels, and is annotated as {own[0]} x {own[1]}"
    raise Rejection("annotated-size", detail)


def _in_pixels(one: AnnotatedObject, size: tuple[int, int]) -> AnnotatedObject:
    """An object whose coordinates are shares of the image, in pixels of it."""
    if one.problem:
        return one
    width, height = size
    ymin, xmin, ymax, xmax = one.bbox
    polygons = one.segmentation and [
        [value * size[place % 2] for place, value in enumerate(points)]
        for points in one.segmentation
    ]
    box = (ymin * height, xmin * width, ymax * height, xmax * width)
    return one._replace(bbox=box, segmentation=polygons)


class _Place(NamedTuple):
    """Where the box of an object is in the stored image.

    Attributes:
        box: What is visible of it, as shares of the image: ymin, xmin, ymax, xmax.
        area: Square pixels of the box in the annotated image.
        inside: Square pixels of it in the frame of that image.
        share: Share of these that the stored image shows, in [0, 1].
    """

    box: list[float]
    area: float
    inside: float
    share: float

    def problem(self, min_visible: float) -> str:
        """Why the object is left out; "" if it is not."""
        if not self.inside:
            return OUTSIDE
        return CUT_OFF if not self.share or self.share < min_visible else ""


def _place(one: AnnotatedObject, move: _Move) -> _Place:
    ymin, xmin, ymax, xmax = one.bbox
    sides = ((xmin, xmax), (ymin, ymax))
    across, down = (axis.span(*sides[axis.source]) for axis in move.axes)
    whole = across.whole * down.whole
    return _Place(
        box=[down.begin, across.begin, down.end, across.end],
        area=across.length * down.length,
        inside=across.inside * down.inside,
        share=across.shown * down.shown / whole if whole > 0 else 0.0,
    )


def _segmented(one: AnnotatedObject, place: _Place, move: _Move) -> tuple[float, str] | str:
    """(area in pixels of the stored image, run lengths) of an object; or what is wrong with it."""
    segmentation = ""
    if one.segmentation is not None:
        try:
            segmentation = _run_lengths(one.segmentation, move)
        except ValueError:
            return BAD_SEGMENTATION
    if place.share < 1 and segmentation:
        return float(coco_mask.area(_coded(segmentation, move.geometry.canvas))), segmentation
    area = one.area if one.area is not None else place.area
    if move.changes:
        across, down = move.axes
        area *= across.scale * down.scale * place.share
    return area, segmentation


def _coded(counts: str, size: tuple[int, int]) -> dict[str, Any]:
    return {"size": [size[1], size[0]], "counts": counts.encode()}


def _run_lengths(segmentation: Any, move: _Move) -> str:
    """The compressed run lengths of polygons, or of other run lengths, in the stored image.

    Raises:
        ValueError: They are none of an image of this size.
    """
    width, height = move.geometry.canvas
    if isinstance(segmentation, list):
        polygons = [move.polygon(points) for points in segmentation]
        parts = coco_mask.frPyObjects(polygons, height, width)
        whole = parts[0] if len(parts) == 1 else coco_mask.merge(parts)
        return str(whole["counts"].decode())
    counts, size = segmentation.get("counts"), segmentation.get("size")
    numbers = decode_run_lengths(counts.encode()) if isinstance(counts, str) else counts
    if size != [move.height, move.width] or not isinstance(numbers, list):
        raise ValueError("run lengths of another size")
    is_whole = all(isinstance(one, int) and one >= 0 for one in numbers)
    if not is_whole or sum(numbers) != move.width * move.height:
        raise ValueError("run lengths that are not those of all pixels")
    coded = coco_mask.frPyObjects({"size": size, "counts": numbers}, *size)
    if move.changes:
        mask = move.mask(coco_mask.decode(coded))
        coded = coco_mask.encode(np.asfortranarray(mask))
    return str(coded["counts"].decode())


def _read_mask(path: str) -> Mask:
    """The numbers of classes in a file.

    Raises:
        Rejection: It is no PNG of one channel, or is gone.
    """
    try:
        return _mask_of(storage.read_bytes(storage.place_of(path)), f" {os.path.basename(path)!r}")
    except OSError as error:
        reason = f"its mask {os.path.basename(path)!r} cannot be read: {type(error).__name__}"
        raise Rejection("bad-mask", reason) from error


def _mask_of(data: bytes, name: str = "") -> Mask:
    """The numbers of classes in the bytes of a file.

    Raises:
        Rejection: They are no PNG of one channel.
    """
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            if image.mode not in _MASK_MODES:
                detail = f"its mask{name} is of mode {image.mode}"
                raise Rejection("bad-mask", f"{detail}: one channel of 8 bits is needed")
            return np.asarray(image).astype(np.uint8)
    except (OSError, ValueError, SyntaxError) as error:
        reason = f"its mask{name} cannot be read: {type(error).__name__}"
        raise Rejection("bad-mask", reason) from error


def _png(mask: Mask) -> bytes:
    return bytes(cv2.imencode(".png", mask)[1].tobytes())
