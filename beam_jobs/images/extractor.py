"""How images are read from a corpus: whole files, members of archives, or an image column."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.annotations.table import AnnotationTable, format_of
from beam_jobs.corpus.class_folders import check_class_folders
from beam_jobs.corpus.dataset_metadata import FeatureNames
from beam_jobs.corpus.formats.idx import is_labels
from beam_jobs.corpus.labels import ANNOTATIONS, flag_of_kept, kept_columns
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.schema_inference import check_columns, detect_source
from beam_jobs.corpus.sniffing import UNKNOWN, image_kind, is_image_name
from beam_jobs.corpus.split_folders import settle_split
from beam_jobs.options import ImageOptions
from beam_jobs.options.formats import CONTAINERS
from beam_jobs.options.values import parse_kept, split_column
from foundation import storage
from foundation.wording import parse_size
from shard_format import UsageError, load_manifest

# The format of every file, or of every member, by --source; others are formats themselves.
_IMAGE_FILES = ("class-folders", "table", *CONTAINERS)
# Those whose first files say which columns every record has.
_WITH_COLUMNS = ("parquet", "arrow", "tfrecord", "array_record", "mds", "litdata")
_DEFAULT_COLUMN, _ALSO_TRIED = "image", "image/encoded"
# Names of columns with positions in an image.
_OF_PIXELS = re.compile(
    r"(?<![a-z])(b?box(es)?|bb|[xy]_?(min|max)|keypoints?|landmarks?|points?|polygons?|segmentations?)"
    r"(?![a-z])",
    re.IGNORECASE,
)


class ImageExtractor(FileExtractor):
    """Takes images out of files, archives and columns."""

    noun = "image"
    plural = "images"
    column_flag = "--image-column"
    digits = 9
    groups_members = True

    def __init__(self, options: ImageOptions) -> None:
        self._options = options
        self.columns = (options.image_column,)
        if options.image_column == _DEFAULT_COLUMN:
            self.alternatives = (_ALSO_TRIED,)
        self.limit = parse_size("--max-record-bytes", options.max_record_bytes)
        self.needs_class_folders = options.source in ("class-folders", *CONTAINERS)
        self.in_file_names = options.source not in ("class-folders", "table")

    @override
    def resolved(self) -> ImageOptions:
        """Settles the source and the splits."""
        options = self._options
        if options.annotations is not None:
            options = _with_annotations(options)
        if options.source == "auto":
            options = detect_source(options)
        extractor = self if options is self._options else ImageExtractor(options)
        options = settle_split(options, extractor)
        if self._options.source == "auto" and options.source == "class-folders":
            check_class_folders(options, may_be_one=self._options.split is not None)
        if options.source in ("class-folders", "idx"):
            _check_no_columns(options)
        if options.source in _WITH_COLUMNS:
            check_columns(options, extractor)
        return dataclasses.replace(options, notes=(*options.notes, *_notes_on_pixels(options)))

    @override
    def container_of(self, item: SourceItem) -> str:
        return self._options.source if self._options.source in CONTAINERS else ""

    @override
    def known_format(self, item: SourceItem) -> str:
        source = self._options.source
        return "image" if source in _IMAGE_FILES else source

    @override
    def format_of(self, head: bytes, name: str) -> str:
        return "image"  # decoding decides

    @override
    def is_primary(self, name: str) -> bool:
        return is_image_name(name)

    @override
    def may_hold(self, path: bytes) -> bool:
        return image_kind(path) != UNKNOWN

    @override
    def is_companion(self, path: bytes) -> bool:
        """Whether the file has the labels of an IDX file."""
        return self._options.source == "idx" and is_labels(path)

    @override
    def holds(self, kind: pa.DataType) -> bool:
        """Whether it is of bytes, or of Hugging Face's struct of bytes and path."""
        if pa.types.is_struct(kind):
            index = kind.get_field_index("bytes")
            return index >= 0 and self.holds(kind.field(index).type)
        tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
        return any(test(kind) for test in tests)

    @override
    def cells(self, column: pa.Array, name: str) -> list[bytes | Rejection]:
        if not self.holds(column.type):
            wrong = Rejection("no-image", f"the column {name!r} has the type {column.type}")
            return [wrong] * len(column)
        paths: Any = None
        if pa.types.is_struct(column.type):
            children = dict(zip([one.name for one in column.type], column.flatten(), strict=True))
            column, paths = children["bytes"], children.get("path")
        return [
            cell if cell is not None else _missing(paths, row)
            for row, cell in enumerate(column.to_pylist())
        ]

    @override
    def from_bytes(self, data: bytes) -> bytes:
        return data

    @override
    def from_fields(self, fields: Mapping[str, Any]) -> bytes:
        raise Rejection("no-image", "text formats hold no images")

    @override
    def example_original(
        self, features: Mapping[str, Sequence[Any]], example: bytes, names: FeatureNames
    ) -> bytes:
        """The bytes of the image feature; raw pixels get a header with their size."""
        column = self._options.image_column
        tried = (column, *self.alternatives)
        name = next((name for name in tried if features.get(name)), None)
        if name is None:
            described = ", ".join(f"{one!a}" for one in sorted(features)[:30]) or "none"
            raise Rejection("no-image", f"there is no feature {column!r} among {described}")
        image, *more = features[name]
        if more or not isinstance(image, bytes):
            kind = type(image).__name__
            detail = f"{name!r} must hold one value of bytes, it has {1 + len(more)} of {kind}"
            raise Rejection("no-image", detail)
        return _as_ppm(image, features) if name in names.raw_images else image


def _with_annotations(options: ImageOptions) -> ImageOptions:
    """The options with the format of the annotations, and the classes of their objects.

    A later generation has the classes of the set.

    Raises:
        InputError: The annotations cannot be read.
        UsageError: The job asks for a column.
    """
    _check_no_columns(options)
    place = storage.place_of(options.annotations or "")
    form = options.annotations_format
    form = format_of(place) if form == "auto" else form
    options = dataclasses.replace(options, annotations_format=form)
    if form == "masks":
        return dataclasses.replace(options, no_labels=True)
    classes = AnnotationTable(options, only_classes=True).classes
    if options.base:
        classes = load_manifest(storage.place_of(options.base)).schema["objects/label"].class_names
    return dataclasses.replace(options, object_classes=classes, multi_label=not options.no_labels)


def _check_no_columns(options: ImageOptions) -> None:
    """Checks that the job asks for no column, of a source without columns.

    Raises:
        UsageError: It asks for one.
    """
    for flag, column in (
        ("--group-by", options.group_by),
        ("--split", split_column(options.split)),
        *(
            (flag_of_kept(one, options), one.name)
            for one in kept_columns(options)
            if one != ANNOTATIONS
        ),
    ):
        if column is not None:
            sources = {"idx": "IDX files", "class-folders": "class folders"}
            what = sources.get(options.source, "annotations")
            advice = "Give a table with that column: --labels FILE."
            if options.annotations is not None:
                advice = "Leave it out, or read the images from a table of columns."
            raise UsageError(f"{flag} names the column {column!r}, but {what} have none. {advice}")


def _notes_on_pixels(options: ImageOptions) -> list[str]:
    """A note if kept columns seem to hold positions in images that are resized."""
    columns = parse_kept(options.keep_columns)
    kept = (one.name for one in columns if one.kind not in ("image", "bbox"))
    names = [name for name in kept if _OF_PIXELS.search(name)]
    if not names or options.resize == "none":
        return []
    return [
        f"--keep-columns {','.join(names)}: numbers in pixels are those of the original images, "
        f"and --resize {options.resize} changes their size. The index has the original size of "
        "each as source_width and source_height, next to width and height; --resize none keeps it."
    ]


def _missing(paths: Any, row: int) -> Rejection:
    path = paths[row].as_py() if paths is not None else None
    if path:
        detail = f"the cell has no bytes but the path {path[:200]!a}: embed the images"
        return Rejection("external-path", detail)
    return Rejection("no-image", "the cell is null")


def _as_ppm(pixels: bytes, features: Mapping[str, Sequence[Any]]) -> bytes:
    """The pixels of a shard set of --encoding raw, with a header that has their size.

    Raises:
        Rejection: They are not as many as their size says.
    """
    height, width = (features.get(side) or [0] for side in ("height", "width"))
    if len(pixels) != 3 * height[0] * width[0]:
        detail = f"{len(pixels)} bytes are not {width[0]} x {height[0]} pixels of 3 bytes"
        raise Rejection("damaged-record", detail)
    return b"P6 %d %d 255\n" % (width[0], height[0]) + pixels
