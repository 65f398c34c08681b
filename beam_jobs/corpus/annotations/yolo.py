"""YOLO: a folder with a text file for each image, and the names of the classes.

A line is a class number, then the centre, the width and the height of a box, or a polygon, as
shares of the image. The names are in data.yaml (`names`), classes.txt, obj.names or
classes.names in the folder or the one around it. Format: docs.ultralytics.com/datasets/detect.
"""

from __future__ import annotations

from typing import Any

import yaml

from beam_jobs.corpus.annotations.files import files_below
from beam_jobs.corpus.annotations.objects import AnnotatedObject, number_of
from beam_jobs.corpus.annotations.store import AnnotationStore
from foundation import storage
from foundation.storage import Place
from shard_format import InputError

_LISTS = ("classes.txt", "obj.names", "classes.names")
_YAMLS = ("data.yaml", "dataset.yaml", "data.yml")


def read_yolo(folder: Place, store: AnnotationStore) -> None:
    """Reads all text files below a folder.

    Raises:
        InputError: A line is damaged, or nothing names the classes.
    """
    for number, name in sorted(_class_names(folder).items()):
        store.add_class(name, str(number))
    for place, image in files_below(folder, ".txt"):
        if place.name in _LISTS:
            continue
        store.add_image(image, image)
        lines = storage.read_bytes(place).decode("utf-8", "replace").splitlines()
        for line in filter(str.strip, lines):
            store.add_object(image, _object(line.split()))


def _object(words: list[str]) -> AnnotatedObject:
    """The object of a line, in shares of the image."""
    label = words[0].partition(".")[0]  # some programs write 3.0
    values = [number_of(word) for word in words[1:]]
    if len(values) > 5 and len(values) % 2 == 0:  # a polygon
        across, down = values[::2], values[1::2]
        box = (min(down), min(across), max(down), max(across))
        return AnnotatedObject(label, box, segmentation=[values])
    if len(values) < 4:
        return AnnotatedObject(label)
    x, y, width, height = values[:4]
    return AnnotatedObject(label, (y - height / 2, x - width / 2, y + height / 2, x + width / 2))


def _class_names(folder: Place) -> dict[int, str]:
    """The names of the classes by their numbers."""
    for near in (folder, folder.parent):
        for name in (*_LISTS, *_YAMLS):
            if storage.stat(near / name) is None:
                continue
            text = storage.read_bytes(near / name).decode("utf-8", "replace")
            if name in _LISTS:
                names: Any = text.rstrip().splitlines()
            else:
                names = _names_of_yaml(text, near / name)
            if isinstance(names, list):
                names = dict(enumerate(names))
            named = {number: str(one).strip() for number, one in names.items() if str(one).strip()}
            if named:
                return named
    raise InputError(
        f"--annotations {folder}: nothing names the classes of its numbers. Put classes.txt, with "
        "a name a line, or data.yaml into that folder or the one around it."
    )


def _names_of_yaml(text: str, file: Place) -> list[Any] | dict[int, Any]:
    """The names of data.yaml: a list, or a mapping from numbers.

    Raises:
        InputError: It has neither.
    """
    try:
        names = yaml.safe_load(text)["names"]
        return names if isinstance(names, list) else {int(key): names[key] for key in names}
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{file} has no names of classes: {type(error).__name__} {error}. Give it names: a "
            "list, or a mapping from the numbers of classes."
        ) from error
