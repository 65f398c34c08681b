"""Objects of a shard set in the form of other programs: COCO, for those that look at and compare.

To add a form: write a function from an open split to its file, and add a line to
`ANNOTATION_FORMS`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from foundation import storage
from foundation.options import check_choice
from foundation.storage import Place, Url, place_of
from reader.access.random_access import RandomAccess, random_access
from shard_format import InputError, Schema, load_manifest, open_split_index

_WHERE = "reader.export_annotations"
_OBJECTS = frozenset(
    f"objects/{part}" for part in ("bbox", "label", "area", "is_crowd", "segmentation")
)
_DIGITS = 3  # of coordinates, in pixels: boxes are float32 shares of an image
_ENDINGS = {"jpeg": "jpg", "png": "png", "webp": "webp"}


@dataclasses.dataclass(frozen=True)
class AnnotationExport:
    """What was written.

    Attributes:
        folder: Where.
        root_hash: Root hash of the set.
        files: File of every split.
        images: Number of images.
        objects: Number of objects.
    """

    folder: Place
    root_hash: str
    files: dict[str, Place]
    images: int
    objects: int


def export_annotations(
    directory: str | os.PathLike[str] | Url,
    out: str | os.PathLike[str] | Url,
    to: str = "coco",
    *,
    images: bool = False,
) -> AnnotationExport:
    """Writes the objects of all images of a set, and the images if they are wanted.

    OUT/annotations/instances_SPLIT.json, and OUT/images/SPLIT/ID.jpg, are where FiftyOne, Datumaro
    and pycocotools look for them. The file names are ids of records; boxes and areas are in pixels
    of the stored images, segmentations are run lengths.

    Args:
        directory: The shard set, or its URL.
        out: The folder to write to, or its URL.
        to: One of `ANNOTATION_FORMS`.
        images: Whether images are written as files.

    Raises:
        InputError: The set has no objects.
        UsageError: The form is unknown.
        ShardSetError: There is no set.
        DamageError: A record is damaged.
    """
    check_choice("to", to, ANNOTATION_FORMS, _WHERE)
    root, folder = place_of(directory), place_of(out)
    manifest = load_manifest(root)
    names = {feature.name for feature in manifest.schema.features}
    if manifest.schema.record_type != "image" or not names >= _OBJECTS:
        raise InputError(
            f"{root} has no images with objects, only {', '.join(sorted(names))}. Build a set with "
            "'shardmill preprocess images SRC --annotations PATH'."
        )
    if images and manifest.schema["image"].encoding not in _ENDINGS:
        raise InputError(
            f"The images of {root} are raw pixels, which are no files. Leave --images out, or "
            "build the set with --encoding png."
        )
    files, counts = {}, [0, 0]
    for split, info in manifest.splits.items():
        if not info.records:
            continue
        index = open_split_index(root, manifest, split)
        sizes = zip(index["width"].to_pylist(), index["height"].to_pylist(), strict=True)
        records = random_access(root, split=split, decode=False)
        target = folder / "images" / split if images else None
        files[split] = folder / "annotations" / f"instances_{split}.json"
        storage.make_folder(files[split].parent)
        done = ANNOTATION_FORMS[to](records, sizes, manifest.schema, files[split], target)
        counts = [before + own for before, own in zip(counts, done, strict=True)]
    return AnnotationExport(folder, manifest.root_hash, files, *counts)


def write_coco(
    records: RandomAccess,
    sizes: Iterator[tuple[int, int]],
    schema: Schema,
    file: Place,
    images: Place | None,
) -> tuple[int, int]:
    """Writes one split; a record is in memory at a time.

    Returns:
        Numbers of images and of objects.
    """
    names = schema["objects/label"].class_names
    categories = [{"id": number, "name": name} for number, name in enumerate(names, 1)]
    ending = _ENDINGS.get(schema["image"].encoding, "")
    objects = 0
    with (
        storage.create(file) as sink,
        tempfile.TemporaryFile() as annotations,
    ):
        sink.write(b'{"categories": ' + _json(categories) + b', "images": [')
        for number, (record, (width, height)) in enumerate(zip(records, sizes, strict=True), 1):
            name = record["id"] if not ending else _with_ending(record["id"], ending)
            image = {"id": number, "file_name": name, "width": width, "height": height}
            sink.write((b",\n" if number > 1 else b"\n") + _json(image))
            if images is not None:
                storage.make_folder((images / name).parent)
                with storage.create(images / name) as copy:
                    copy.write(record["image"])
            for one in _annotations(record["objects"], width, height):
                objects += 1
                one = {"id": objects, "image_id": number, **one}
                annotations.write((b",\n" if objects > 1 else b"\n") + _json(one))
        sink.write(b'\n], "annotations": [')
        annotations.seek(0)
        shutil.copyfileobj(annotations, sink)
        sink.write(b"\n]}\n")
    return len(records), objects


def _annotations(objects: dict[str, Any], width: int, height: int) -> Iterator[dict[str, Any]]:
    """The objects of an image in the form of COCO, but for their ids."""
    for place, (ymin, xmin, ymax, xmax) in enumerate(objects["bbox"].tolist()):
        box = (xmin * width, ymin * height, (xmax - xmin) * width, (ymax - ymin) * height)
        counts = objects["segmentation"][place]
        yield {
            "category_id": int(objects["label"][place]) + 1,
            "bbox": [round(value, _DIGITS) for value in box],
            "area": round(float(objects["area"][place]), _DIGITS),
            "iscrowd": int(objects["is_crowd"][place]),
            "segmentation": {"size": [height, width], "counts": counts} if counts else [],
        }


def _with_ending(name: str, ending: str) -> str:
    """The name of a file with its encoding: the image may have been one of another."""
    endings = (".jpg", ".jpeg") if ending == "jpg" else (f".{ending}",)
    return name if name.lower().endswith(endings) else f"{name}.{ending}"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


ANNOTATION_FORMS: dict[str, Callable[..., tuple[int, int]]] = {"coco": write_coco}
