"""What a record has, for people: texts, images, numbers in words, boxes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.report.previews import token_decoder
from shard_format import Feature, Schema
from shard_format.example import Values
from shard_format.feature_values import from_stored

MOST_PIXELS = 1 << 26  # of an image that is decoded: 200 MB as RGB
TEXT_PART = 20_000  # characters of a text that a page has
_MOST_IMAGES = 24
_MOST_BOXES = 200
_MOST_ITEMS = 48  # of a list, or of a tensor
_MOST_HEX = 64  # bytes


class ShownValue(NamedTuple):
    """A feature of a record.

    Attributes:
        name: Its name.
        form: Its kind and shape.
        text: Its value in words, or the part of a text that is shown.
        images: Numbers of its images that are shown.
        before: Where the part before begins in a text; None if there is none.
        after: Where the part behind begins.
    """

    name: str
    form: str
    text: str
    images: tuple[int, ...] = ()
    before: int | None = None
    after: int | None = None


class Box(NamedTuple):
    """An object in a picture: its class, and its edges as shares of height and width."""

    name: str
    top: float
    left: float
    bottom: float
    right: float


def shown_values(schema: Schema, values: Mapping[str, Values], start: int) -> list[ShownValue]:
    """The features of a record, in the order of the schema.

    Args:
        schema: Schema of the set.
        values: The record as it is stored.
        start: The first character that is shown of long texts.
    """
    return [_shown(feature, values, start) for feature in schema.features]


def _shown(feature: Feature, values: Mapping[str, Values], start: int) -> ShownValue:
    try:
        value = from_stored(feature, [values[part.name] for part in feature.stored])
    except (KeyError, ValueError) as error:
        return ShownValue(feature.name, feature.form, f"damaged: {error}")
    if feature.kind == "image":
        several = value if isinstance(value, list) else [value]
        text = f"{len(several)} images, {sum(map(len, several)):,} bytes" if feature.dims else ""
        numbers = tuple(range(min(len(several), _MOST_IMAGES)))
        return ShownValue(feature.name, feature.form, text, numbers)
    if isinstance(value, str) and len(value) > TEXT_PART:
        before = max(0, start - TEXT_PART) if start else None
        after = start + TEXT_PART if start + TEXT_PART < len(value) else None
        part = value[start : start + TEXT_PART]
        return ShownValue(feature.name, feature.form, part, (), before, after)
    return ShownValue(feature.name, feature.form, in_words(value, feature.class_names))


def in_words(value: Any, class_names: tuple[str, ...] = ()) -> str:
    """A value in words; of many numbers or texts the first and the last ones."""
    if isinstance(value, bytes):
        end = " ..." if len(value) > _MOST_HEX else ""
        return f"{len(value):,} bytes: {value[:_MOST_HEX].hex(' ')}{end}"
    if class_names:
        numbers = np.atleast_1d(value).tolist()[:_MOST_ITEMS]
        return ", ".join(class_names[n] if 0 <= n < len(class_names) else f"{n}" for n in numbers)
    if isinstance(value, np.ndarray) and value.dtype != object:
        items = np.array2string(value, threshold=_MOST_ITEMS, separator=", ", max_line_width=120)
        return f"{value.dtype} {list(value.shape)}: {items}" if value.ndim else items
    if isinstance(value, list | np.ndarray):
        shown = [in_words(one)[:TEXT_PART] for one in value[:_MOST_ITEMS]]
        more = [f"... {len(value):,} in all"] if len(value) > _MOST_ITEMS else []
        return "\n".join([*shown, *more])
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def boxes_of(schema: Schema, values: Mapping[str, Any]) -> list[Box]:
    """The objects of a picture, with the names of their classes.

    Args:
        schema: Schema of the set.
        values: By the names of features: edges as shares of the picture, numbers of classes.
    """
    boxes = []
    for feature in schema.features:
        if feature.kind != "bbox" or feature.name not in values:
            continue
        places = np.clip(np.asarray(values[feature.name], np.float64).reshape(-1, 4), 0, 1)
        label = f"{feature.name.rpartition('/')[0]}/label"
        names = next((one.class_names for one in schema.features if one.name == label), ())
        numbers = np.asarray(values.get(label, ()), np.int64).tolist()
        for at, place in enumerate(places[:_MOST_BOXES].tolist()):
            boxes.append(Box(in_words(numbers[at], names) if at < len(numbers) else "", *place))
    return boxes


def are_decoded(schema: Schema, values: Mapping[str, Values]) -> bool:
    """Whether all images of a record are whole enough, and small enough, to be decoded."""
    images = [one for one in schema.features if one.kind == "image"]
    numbers = [(one, at) for one in images for at in range(len(values.get(one.name, ())))]
    sizes = [image_size(values, *one) for one in numbers]
    return all(size is not None and size[0] * size[1] <= MOST_PIXELS for size in sizes)


def image_size(
    values: Mapping[str, Values], feature: Feature, number: int = 0
) -> tuple[int, int] | None:
    """(width, height) that an image of a feature declares; None if it is damaged."""
    try:
        if feature.encoding == "raw":
            return int(values["width"][0]), int(values["height"][0])
        with Image.open(io.BytesIO(values[feature.name][number])) as image:  # type: ignore[arg-type]
            return image.size
    except Exception:  # a parser of a damaged image may raise anything
        return None


def segment_texts(finished: FinishedSet, values: Mapping[str, Values]) -> list[str]:
    """The text of each document in a packed sequence; empty of other records."""
    tokens, segments = (np.asarray(values.get(name, ()), np.int64) for name in _PACKED)
    if not len(tokens) or len(tokens) != len(segments):
        return []
    decode = token_decoder(finished)
    numbers = [int(one) for one in np.unique(segments) if one > 0]
    return [decode(tokens[segments == one].tolist()) for one in numbers]


_PACKED = ("tokens", "segments")
