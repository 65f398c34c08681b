"""YOLO: a folder with a text file for each image, and the names of the classes.

A line is a class number, then the centre, the width and the height of a box, or a polygon, as
shares of the image. The names are in data.yaml (`names`), classes.txt, obj.names or
classes.names in the folder or the one around it. Format: docs.ultralytics.com/datasets/detect.
"""

from __future__ import annotations

import re

from beam_jobs.corpus.annotations.files import files_below
from beam_jobs.corpus.annotations.objects import AnnotatedObject, number_of
from beam_jobs.corpus.annotations.store import AnnotationStore
from foundation import storage
from foundation.storage import Place
from shard_format import InputError

_LISTS = ("classes.txt", "obj.names", "classes.names")
_YAMLS = ("data.yaml", "dataset.yaml", "data.yml")
_NAMES = re.compile(r"^names:\s*(\[.*?\]|(?:\n\s+.*|\n-.*)+)", re.MULTILINE | re.DOTALL)


def read_yolo(folder: Place, store: AnnotationStore) -> None:
    """Reads all text files below a folder.

    Raises:
        InputError: A line is damaged, or nothing names the classes.
    """
    for number, name in enumerate(_class_names(folder)):
        store.add_class(name, str(number))
    for place, name in files_below(folder, ".txt"):
        if name.rpartition("/")[2] in _LISTS:
            continue
        image = name.removesuffix(".txt")
        store.add_image(image, image)
        lines = storage.read_bytes(place).decode("utf-8", "replace").splitlines()
        for line in filter(str.strip, lines):
            store.add_object(image, _object(line.split()))


def _object(words: list[str]) -> AnnotatedObject:
    """The object of a line, in shares of the image."""
    label, *values = words[0], *map(number_of, words[1:])
    label = str(int(number_of(label))) if number_of(label) >= 0 else label
    if len(values) > 5 and len(values) % 2 == 0:  # a polygon
        across, down = values[::2], values[1::2]
        box = (min(down), min(across), max(down), max(across))
        return AnnotatedObject(label, box, segmentation=[values])
    if len(values) < 4:
        return AnnotatedObject(label)
    x, y, width, height = values[:4]
    return AnnotatedObject(label, (y - height / 2, x - width / 2, y + height / 2, x + width / 2))


def _class_names(folder: Place) -> list[str]:
    for near in (folder, folder.parent):
        for name in (*_LISTS, *_YAMLS):
            if storage.stat(near / name) is None:
                continue
            text = storage.read_bytes(near / name).decode("utf-8", "replace")
            names = _names_of_yaml(text) if name in _YAMLS else text.split("\n")
            if names := [one.strip() for one in names if one.strip()]:
                return names
    raise InputError(
        f"--annotations {folder}: nothing names the classes of its numbers. Put classes.txt, with "
        "a name a line, or data.yaml into that folder or the one around it."
    )


def _names_of_yaml(text: str) -> list[str]:
    """The names of data.yaml: a list, or a mapping from numbers."""
    match = _NAMES.search(text)
    if match is None:
        return []
    content = match[1].strip()
    if content.startswith("["):
        return [one.strip().strip("'\"") for one in content.strip("[]").split(",")]
    lines = (line.strip() for line in content.splitlines())
    return [re.sub(r"^(-|\d+\s*:)\s*", "", line).strip("'\"") for line in lines if line]
