"""What annotates an image: its objects, and its mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

# Why an object is left out of its image; the ledger counts the images that have such.
NO_AREA, BAD_BOX, BAD_SEGMENTATION, NO_CLASS, REPEATED = (
    "no-area",
    "bad-box",
    "bad-segmentation",
    "no-class",
    "repeated-id",
)
OUTSIDE, CUT_OFF = "outside", "cut-off"
DROPPED = "dropped-objects "  # before a problem, in the name of a column of sidecars
_FARTHEST = 1 << 20  # pixels: drawing a polygon takes memory by the length of its edges
PROBLEMS = (NO_AREA, BAD_BOX, BAD_SEGMENTATION, NO_CLASS, REPEATED, OUTSIDE, CUT_OFF)


class AnnotatedObject(NamedTuple):
    """An object in an image.

    Attributes:
        label: Name of its class.
        bbox: (ymin, xmin, ymax, xmax) in pixels of the annotated image.
        area: In square pixels; None is that of the box.
        is_crowd: Whether it is a group of objects.
        segmentation: Polygons [[x, y, x, y, ...], ...] in pixels, or run lengths of COCO,
            {"size": [height, width], "counts": text or list of int}; None without one.
        problem: Why it is left out, one of PROBLEMS; "" where it is not.
    """

    label: str
    bbox: tuple[float, ...] = ()
    area: float | None = None
    is_crowd: bool = False
    segmentation: Any = None
    problem: str = ""


class ImageAnnotations(NamedTuple):
    """What annotates one image.

    Attributes:
        width: Width of the image in pixels that its annotations are for; 0 where they are shares of
            the image in place of pixels.
        height: Height likewise.
        objects: Its objects.
        mask: Path of the file with its mask; "" without one.
    """

    width: int = 0
    height: int = 0
    objects: tuple[AnnotatedObject, ...] = ()
    mask: str = ""

    def to_json(self) -> str:
        """As JSON."""
        objects = [tuple(one) for one in self.objects]
        return orjson.dumps((self.width, self.height, objects, self.mask)).decode()

    @classmethod
    def from_json(cls, text: str) -> ImageAnnotations:
        """The inverse of `to_json`."""
        width, height, objects, mask = orjson.loads(text)
        return cls(width, height, tuple(AnnotatedObject(*one) for one in objects), mask)


def checked_object(one: AnnotatedObject) -> AnnotatedObject:
    """The object, with its problem if it has one by itself."""
    if one.problem:
        return one
    if len(one.bbox) != 4 or not all(map(math.isfinite, one.bbox)):
        return AnnotatedObject(one.label, problem=BAD_BOX)
    ymin, xmin, ymax, xmax = one.bbox
    if not (ymin < ymax and xmin < xmax):
        return AnnotatedObject(one.label, problem=NO_AREA)
    if not one.label:
        return AnnotatedObject(one.label, problem=NO_CLASS)
    if not (one.segmentation is None or _is_segmentation(one.segmentation)):
        return AnnotatedObject(one.label, problem=BAD_SEGMENTATION)
    return one


def _is_segmentation(value: Any) -> bool:
    """Whether a value has the form of run lengths, or is polygons."""
    return isinstance(value, dict) or (isinstance(value, list) and all(map(_is_polygon, value)))


def _is_polygon(points: Any) -> bool:
    """Whether numbers are three points or more, none of them far from any image."""
    if not isinstance(points, Sequence) or len(points) < 6 or len(points) % 2:
        return False
    return all(isinstance(one, int | float) and abs(one) <= _FARTHEST for one in points)


def number_of(text: Any) -> float:
    """A number of a text or of JSON; NaN where there is none."""
    try:
        return float(text)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def whole_number(text: Any) -> int:
    """A whole number of a text or of JSON; 0 where there is none."""
    number = number_of(text)
    return int(number) if 0 <= number < 1 << 31 else 0
