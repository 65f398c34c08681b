"""COCO: one JSON file with images, annotations and categories, which is streamed.

Format: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Iterator
from typing import Any

import ijson

from beam_jobs.corpus.annotations.objects import AnnotatedObject, number_of, whole_number
from beam_jobs.corpus.annotations.store import AnnotationStore
from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import FileRange, opened
from foundation import storage
from foundation.storage import Place
from shard_format import InputError


def read_categories(file: Place, store: AnnotationStore) -> None:
    """Reads the classes of a file.

    Raises:
        InputError: It is not JSON in this form, or two categories share an id.
    """
    with _of_coco(file):
        for name, identity in _categories(file, storage.stat(file)):
            store.add_class(name, identity)


def read_coco(file: Place, store: AnnotationStore) -> None:
    """Reads a file, once for each of its lists, since these are in any order.

    Raises:
        InputError: It is not JSON in this form, or two images or categories share an id.
    """
    read_categories(file, store)
    with _of_coco(file):
        for image in _items(file, "images"):
            width, height = (whole_number(image.get(side)) for side in ("width", "height"))
            store.add_image(str(image["id"]), str(image["file_name"]), width, height)
        for annotation in _items(file, "annotations"):
            _add(annotation, store)


@functools.lru_cache(maxsize=1)  # a job asks twice: before it lists its images, and then
def _categories(file: Place, stat: storage.Stat | None) -> list[tuple[str, str]]:
    """(name, id) of the categories of a file that has this size and time."""
    return [(str(one["name"]), str(one["id"])) for one in _items(file, "categories")]


@contextlib.contextmanager
def _of_coco(file: Place) -> Iterator[None]:
    """Raises InputError in place of what a value of another form raises."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"--annotations {file} is not in the form of COCO: {type(error).__name__} {error}. "
            "It needs images with id and file_name, categories with id and name, and annotations "
            "with image_id, category_id and bbox."
        ) from error


def _items(file: Place, name: str) -> Iterator[dict[str, Any]]:
    """The items of one of the lists.

    Raises:
        InputError: The file is damaged.
    """
    path = os.fsencode(str(file))
    with FileRange(path) as raw:
        codec = codec_of(raw.look(16))
    try:
        with opened(FileRange(path), codec) as stream:
            yield from ijson.items(stream, f"{name}.item", use_float=True)
            stream.check_whole()
    except (ijson.JSONError, Rejection) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"--annotations {file} is not JSON: {reason}. Correct the file; NaN is not JSON, null "
            "is."
        ) from error


def _add(annotation: dict[str, Any], store: AnnotationStore) -> None:
    box = annotation.get("bbox")
    left, top, width, height = (
        map(number_of, box) if isinstance(box, list) and len(box) == 4 else [math.nan] * 4
    )
    area, segmentation = annotation.get("area"), annotation.get("segmentation")
    one = AnnotatedObject(
        str(annotation["category_id"]),
        (top, left, top + height, left + width),
        None if area is None else number_of(area),
        bool(annotation.get("iscrowd", False)),
        None if segmentation in ([], [[]]) else segmentation,
    )
    own = annotation.get("id")
    store.add_object(str(annotation["image_id"]), one, "" if own is None else str(own))
