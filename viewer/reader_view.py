"""What `reader.load` makes of one record: pictures as they are trained on, token ids, targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import reader
from beam_jobs.report.previews import DataUri, encode_thumbnail, token_decoder
from foundation.extras import naming_extras
from reader.record_types.objects import MASK, is_placed
from viewer.values import Box, boxes_of, in_words
from viewer.viewed_set import ViewedSet

SIZES = (16, 1024)  # pixels
AUGMENT = {"image": "standard"}  # what is shown at first; of other kinds "none"
_DRAWS = 4
_PARTS = ("inputs", "targets", "weights")
_TINT = np.array((230, 159, 0), np.float32)  # of masks


class Draw(NamedTuple):
    """A record in one epoch.

    Attributes:
        picture: Its image, or None.
        size: (width, height) of the image.
        boxes: The objects in it.
        values: (name, value in words) of everything else.
    """

    picture: DataUri | None
    size: tuple[int, int]
    boxes: list[Box]
    values: list[tuple[str, str]]


def draws_of(viewed: ViewedSet, split: int, record_id: str, augment: str, size: int) -> list[Draw]:
    """A record in the first epochs; in one where nothing is drawn at random.

    Args:
        viewed: The set.
        split: Number of the split.
        record_id: Id of the record.
        augment: As `reader.load` takes it.
        size: Height and width of images in pixels.

    Raises:
        UsageError: An option does not fit the set.
        MissingExtraError: The augmentation needs TensorFlow, which is not installed.
        DamageError: The record is damaged.
    """
    options: dict[str, Any] = {"augment": augment}
    if viewed.kind == "image":
        features = viewed.manifest.schema.features
        placed = tuple(one.name for one in features if is_placed(one))
        options |= {"image_size": size, "features": placed}
    epochs = 1 if augment == "none" or viewed.kind == "record" else _DRAWS
    with naming_extras():
        stream = reader.load(
            viewed.finished.directory,
            split=viewed.splits[split],
            generation=viewed.manifest.newest,
            where=f"record_id == {record_id!r}",
            batch_size=1,
            shuffle="off",
            epochs=epochs,
            cache="off",
            threads=1,
            **(options if viewed.kind != "record" else {}),
        )
        batches = iter(stream)
        return [_draw(viewed, dict(_named(next(batches)))) for _ in range(epochs)]


def _named(batch: Any) -> Iterator[tuple[str, Any]]:
    """(name, value of the only record) of everything in a batch; names of objects have a "/"."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    for name, part in zip(_PARTS, parts, strict=False):
        yield from _leaves("" if name == _PARTS[0] and isinstance(part, dict) else name, part)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield name, value[0]
        return
    for inner, own in value.items():
        yield from _leaves(f"{name}/{inner}" if name else inner, own)


def _draw(viewed: ViewedSet, values: dict[str, Any]) -> Draw:
    schema, picture, size = viewed.manifest.schema, None, (0, 0)
    boxes = boxes_of(schema, values)
    name = next((one for one in ("image", _PARTS[0]) if _dims(values.get(one)) == 3), None)
    if viewed.kind == "image" and name is not None:
        pixels = np.asarray(values.pop(name), np.float32)
        pixels = pixels if pixels.shape[-1] == 3 else pixels.transpose(1, 2, 0)  # channels_first
        masks = [values.get(MASK), *values.get("objects/segmentation", ())]
        pixels = _tinted(pixels, [one for one in masks if one is not None])
        picture, size = encode_thumbnail(pixels.astype(np.uint8)), pixels.shape[1::-1]
    if viewed.kind in ("tokens", "packed"):
        values |= dict(_decoded(viewed, values))
    label = schema.labels[0].class_names if schema.labels else ()
    is_class = _dims(values.get(_PARTS[1])) == 0 and viewed.kind != "packed"
    named = {_PARTS[1]: label} if is_class else {}
    rows = [(one, _in_words(value, named.get(one, ()))) for one, value in values.items()]
    return Draw(picture, size, boxes, rows)


def _dims(value: Any) -> int:
    return value.ndim if isinstance(value, np.ndarray) else 0


def _in_words(value: Any, class_names: tuple[str, ...]) -> str:
    if _dims(value) > 2:  # pixels, such as masks
        return f"{value.dtype} {list(value.shape)}"
    return in_words(value, class_names)


def _tinted(
    pixels: npt.NDArray[np.float32], masks: Sequence[npt.NDArray[np.uint8]]
) -> npt.NDArray[np.float32]:
    """Pixels with the masks of objects, or of classes but for background and margins, in a tint."""
    for mask in masks:
        shown = ((mask > 0) & (mask < 255)).reshape(*pixels.shape[:2], 1)
        pixels = np.where(shown, 0.6 * pixels + 0.4 * _TINT, pixels)
    return pixels


def _decoded(viewed: ViewedSet, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of token ids, where the tokenizer knows all of them."""
    decode = token_decoder(viewed.finished)
    for name in ("inputs", "tokens", "targets"):
        if _dims(values.get(name)) == 1:
            try:
                yield f"{name} as text", decode(np.asarray(values[name]).tolist())
            except Exception:  # of padding that the tokenizer does not have, in its own library
                continue
