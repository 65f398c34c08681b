"""The annotations of a corpus, as the listing asks for them: by the path of an image."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pyarrow as pa

from beam_jobs.corpus.annotations import CLASSES, FORMATS
from beam_jobs.corpus.annotations.files import is_folder
from beam_jobs.corpus.annotations.objects import ImageAnnotations
from beam_jobs.corpus.annotations.store import AnnotationStore
from beam_jobs.corpus.names import readable_name
from beam_jobs.corpus.record import Annotations, Rejection, SourceItem, join_labels
from beam_jobs.corpus.sniffing import is_coco
from beam_jobs.corpus.source_io import UnreadableError
from beam_jobs.options import ImageOptions
from foundation import storage
from foundation.storage import Place
from shard_format import InputError

# Formats whose files do not list the classes in an order of their own.
_UNLISTED = ("voc", "csv", "open-images")


class AnnotationTable:
    """Annotations by record id.

    Args:
        options: The job, with a format of annotations.
        only_classes: Whether nothing but the classes will be asked for.

    Raises:
        InputError: The annotations cannot be read.
    """

    absent = "nothing annotates this image"

    def __init__(self, options: ImageOptions, *, only_classes: bool = False) -> None:
        self._options = options
        self._path = storage.place_of(options.annotations or "")
        self._store = AnnotationStore()
        formats = CLASSES if only_classes else FORMATS
        with _reading(self._path):
            formats[options.annotations_format](self._path, self._store)
        self._store.finish()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of objects: in the order of the annotations, or sorted."""
        names = self._store.classes
        return tuple(sorted(names) if self._options.annotations_format in _UNLISTED else names)

    def look_up(self, item: SourceItem) -> Annotations | Rejection | None:
        """What annotates an item; None if nothing does."""
        try:
            annotations = self._store.look_up(item.record_id)
        except LookupError as error:
            return Rejection("ambiguous-annotations", str(error.args[0]))
        return None if annotations is None else self._said(annotations)

    def without(self, item: SourceItem) -> Annotations | None:
        """What is said of an item without annotations: that it has no object, if it is kept."""
        if self._options.unannotated == "keep" and self._options.annotations_format != "masks":
            return self._said(ImageAnnotations())
        return None

    def _said(self, annotations: ImageAnnotations) -> Annotations:
        names = {one.label for one in annotations.objects if not one.problem}
        label = None if self._options.no_labels else join_labels(names)
        return Annotations(label=label, kept=(annotations.to_json(),))

    def is_this(self, item: SourceItem) -> bool:
        """Whether an item is the file with the annotations, or one of the masks."""
        if self._options.annotations_format == "masks":
            return self._store.has_mask(os.fsdecode(item.path))
        return item.path == os.fsencode(str(self._path))

    def unused(self) -> Iterator[SourceItem]:
        """A rejected item for all annotations whose image was not listed."""
        name = readable_name(os.fsencode(self._path.name))
        for image in self._store.unused():
            item = SourceItem(f"{name}/{image}", b"", None, 0, 0)
            yield item.rejected(
                Rejection("missing-file", "it is annotated, and no image has this path")
            )
        for image, count in self._store.without_image():
            item = SourceItem(f"{name}/{image}", b"", None, 0, 0)
            detail = f"{count} objects are of this image, which the annotations do not list"
            yield item.rejected(Rejection("no-such-image", detail))


@contextlib.contextmanager
def _reading(place: Place) -> Iterator[None]:
    """Raises InputError in place of what a file raises that cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException, UnreadableError, Rejection) as error:
        raise InputError(f"Cannot read --annotations {place}: {error}.") from error


def format_of(place: Place) -> str:
    """The key of FORMATS that annotations are, by their content.

    Raises:
        InputError: They are none.
    """
    if not is_folder(place):
        if is_coco(os.fsencode(str(place))):
            return "coco"
        from beam_jobs.corpus.table_rows import TableRows

        with _reading(place):
            names = TableRows(str(place), "--annotations").names
        return "open-images" if {"ImageID", "LabelName", "XMin"} <= set(names) else "csv"
    endings = (entry.name.rpartition(".")[2].lower() for entry in _some_files(place))
    for ending in endings:
        if ending in _BY_ENDING:
            return _BY_ENDING[ending]
    raise InputError(
        f"--annotations {place} has neither XML files (voc), nor text files (yolo), nor PNG masks "
        "near its top. Check the path, or name the form with --annotations-format."
    )


_BY_ENDING = {"xml": "voc", "txt": "yolo", "png": "masks"}
_LOOKED_AT = 1000  # entries of a folder


def _some_files(folder: Place) -> Iterator[storage.Entry]:
    """Some files of a folder, and of the first folder in it that has some."""
    entries = sorted(storage.list_folder(folder), key=lambda entry: entry.name)[:_LOOKED_AT]
    yield from (entry for entry in entries if entry.kind == storage.FILE)
    for entry in entries:
        if entry.kind == storage.FOLDER:
            yield from _some_files(folder / entry.name)
            return
