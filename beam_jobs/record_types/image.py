"""Images: decode, turn upright, resize, encode; or keep a JPEG that needs no change."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import PIL
import pyarrow as pa
import simplejpeg
from PIL import features
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.corpus.labels import ANNOTATIONS, kept_columns
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.urls.extractor import UrlExtractor
from beam_jobs.counters import Sums
from beam_jobs.dedup.both_near import common_pairs, near_in_both
from beam_jobs.dedup.clusters import NearPairs
from beam_jobs.dedup.images.hash_format import HASH_BYTES, THUMBNAIL_BYTES
from beam_jobs.dedup.images.near_duplicates import near_duplicates, near_earlier_ones
from beam_jobs.dedup.images.near_rounds import near_search
from beam_jobs.dedup.near_rounds import NearSearch
from beam_jobs.dedup.text.near_duplicates import near_duplicates as near_texts
from beam_jobs.dedup.text.near_duplicates import near_earlier_ones as near_earlier_texts
from beam_jobs.dedup.text.near_rounds import near_search as near_texts_search
from beam_jobs.dedup.text.signatures import NEAR_FIELDS, near_columns
from beam_jobs.images.annotated import AnnotationPlacer, orientation_of, problem_field
from beam_jobs.images.decode import DecodedImage, DecodingOptions, Pixels, decode_unconverted, heif
from beam_jobs.images.decode.base import parse_background
from beam_jobs.images.encode import ENCODERS, decode_jpeg_strictly, decode_stored, preview
from beam_jobs.images.extractor import ImageExtractor
from beam_jobs.images.filters import check_image, filter_options
from beam_jobs.images.jpeg_passthrough import needs_no_change, pixels_hash, shrunk
from beam_jobs.images.perceptual_hash import perceptual_hashes, thumbnail_of
from beam_jobs.images.resize import (
    geometry_of,
    keeps_size,
    parse_resize,
    resize_image,
    stays_smaller,
)
from beam_jobs.images.statistics import NOT_COUNTED, PIXEL_FIELDS, PixelSums, count_pixels
from beam_jobs.options import ImageOptions
from beam_jobs.options.values import parse_quality
from beam_jobs.record_types.base import (
    PIXELS,
    Prepared,
    PreparedBatch,
    SingleRecords,
    further_features,
    kept_index_columns,
    late_index_columns,
)
from beam_jobs.staging.assignment import TrainingSample
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from beam_jobs.workspace import Workspace
from foundation.storage import Place
from shard_format import Feature, Schema, id_hash

if TYPE_CHECKING:
    from beam_jobs.record_types.captions import Captions
    from beam_jobs.scores.images import ImageScores

# To find near duplicates.
_NEAR_FIELDS = (
    pa.field("perceptual_hash", pa.binary(HASH_BYTES), nullable=False),
    pa.field("thumbnail", pa.binary(THUMBNAIL_BYTES), nullable=False),
)
# With --quality keep, one image in this many is decoded in full, for the statistics of pixels.
_COUNTED_OF_KEPT = 8
_NO_PIXELS: Pixels = np.zeros((0, 0, 3), np.uint8)


class ImageRecords(SingleRecords):
    """Input: the bytes of an image in any format. Output: {"id": "hat/1.jpg", "image": jpeg}."""

    version = 3
    statistics = (
        pa.field("width", pa.int32()),  # pixels, as stored
        pa.field("height", pa.int32()),
        pa.field("source_width", pa.int32()),  # pixels, in the source file
        pa.field("source_height", pa.int32()),
        pa.field("source_format", pa.string()),  # by content, not by name
        pa.field("source_bytes", pa.int64()),
        *PIXEL_FIELDS,
    )

    summarized = ("width", "height", "source_width", "source_height", "source_bytes")
    fingerprint_options = (
        *("resize", "enlarge", "resize_filter", "encoding", "quality", "background"),
    )

    def __init__(self, options: ImageOptions) -> None:
        self._options = options
        self.extractor: FileExtractor = ImageExtractor(options)
        if options.url_column is not None:
            self.extractor = UrlExtractor(options, self.extractor)
        self._resize = parse_resize(options.resize, options.enlarge, options.resize_filter)
        self._keeps, self._quality = parse_quality(options.quality)
        self._encoding = options.encoding
        self._max_pixels = options.max_pixels
        self._decoding = DecodingOptions(
            max_pixels=options.max_pixels,
            lenient=options.lenient,
            background=parse_background(options.background),
            animated=options.animated,
            time_limit=options.time_limit,
        )
        self._filters = filter_options(options)
        self._near = options.dedup == "near" and options.near_by != "caption"
        self._near_captions = options.dedup == "near" and options.near_by != "image"
        self.dedup_features = (*_NEAR_FIELDS * self._near, *NEAR_FIELDS * self._near_captions)
        self.planning_passes = self._near + self._near_captions
        self._captions: Captions | None = None
        if options.caption_column:
            from beam_jobs.record_types.captions import Captions  # loads the steps of texts

            self._captions = Captions(options)
        self._scores: ImageScores | None = None
        if options.score:
            from beam_jobs.scores.images import ImageScores  # most jobs have none

            self._scores = ImageScores(options)
        scores = self._scores.features if self._scores else ()
        annotations = (ANNOTATIONS,) if options.annotations is not None else ()
        self.consumed = frozenset(one.name for one in annotations)
        self._placer = placer_of(options)
        names = [one.name for one in kept_columns(options)]
        annotation = options.mask_column or ANNOTATIONS.name
        self._annotation = names.index(annotation) if self._placer else 0
        problems = self._placer.problems if self._placer else ()
        not_enlarged = pa.field("not_enlarged", pa.bool_(), nullable=False)
        self.ledger_columns = (not_enlarged, *map(problem_field, problems))
        self.schema = _schema(options, self._placer, self._captions, scores)
        self.late_columns = late_index_columns(options)
        own_columns = (*self.statistics, *self.late_columns)
        self.kept_columns = kept_index_columns(options, own_columns, scores)

    def config(self) -> dict[str, Any]:
        """The scores with their models; nothing without --score."""
        return {"score": self._scores.described()} if self._scores else {}

    def stage_options(self) -> dict[str, Any]:
        """Resizing, encoding, decoding, filters, and the versions of the kernels."""
        resize = self._resize
        # Other versions may round differently, so units that they staged are not reused.
        kernels = [simplejpeg.__version__, cv2.__version__, PIL.__version__]
        # With another decoder of HEIC, or with one at last, these units are staged anew.
        kernels += [f"pi_heif {heif.version()}"] if heif.version() else []
        if self._encoding == "webp":
            kernels.append(features.version("webp"))
        return {
            "resize": list(dataclasses.astuple(resize)),
            "encoding": self._encoding,
            "quality": [self._keeps, self._quality],
            "decoding": self._decoding,
            "filters": self._filters,
            "near": self._near,
            "kernels": kernels,
            **({"annotations": dataclasses.astuple(self._placer)} if self._placer else {}),
            **({"captions": self._captions.options()} if self._captions else {}),
            **({"near_captions": True} if self._near_captions else {}),
            **self.config(),
        }

    @override
    def prepare(self, record: RawRecord) -> Prepared:
        record_id, data = record.record_id, record.payload
        # Of changed and unchanged records alike: else those that need a change would weigh more.
        counts = not self._keeps or id_hash(record_id) % _COUNTED_OF_KEPT == 0
        kept = self._kept(data, counts) if self._keeps else None
        image, fingerprint = kept or (decode_unconverted(data, self._decoding), b"")
        check_image(image, self._filters)
        if kept:
            stored, pixels, width, height = data, image.pixels, image.width, image.height
            upright = width, height
        else:
            upright = image.pixels.shape[1], image.pixels.shape[0]
            pixels = resize_image(image.pixels, self._resize, self._max_pixels, image.to_srgb)
            stored = ENCODERS[self._encoding](pixels, self._quality)
            height, width = pixels.shape[:2]
        size = {"height": height, "width": width} if self._encoding == "raw" else {}
        annotated, problems = self._annotated(record, image, upright)
        return Prepared(
            values={
                "id": record_id,
                "image": stored,
                **size,
                **annotated,
                **({PIXELS: pixels} if self._scores else {}),
            },
            fingerprint=fingerprint or self._fingerprint(stored, width, height),
            statistics={
                "width": width,
                "height": height,
                "source_width": image.width,
                "source_height": image.height,
                "source_format": image.format,
                "source_bytes": len(data),
                **(count_pixels(pixels) if counts else NOT_COUNTED),
                **({"thumbnail": thumbnail_of(image.pixels, image.to_srgb)} if self._near else {}),
                "not_enlarged": stays_smaller(*upright, self._resize),
                **problems,
            },
        )

    def _annotated(
        self, record: RawRecord, image: DecodedImage, upright: tuple[int, int]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """Values of the features of objects and masks, and of their columns of the ledger."""
        if self._placer is None:
            return {}, {}
        turned = "orientation" in image.repairs
        values, problems = self._placer.place(
            record.annotations.kept[self._annotation],
            (image.width, image.height),
            orientation_of(record.payload) if turned else 1,
            geometry_of(*upright, self._resize),
        )
        return values, {problem_field(one).name: problems[one] for one in self._placer.problems}

    @override
    def check(self) -> None:
        if self._captions:
            self._captions.check()

    @override
    def prepare_each(self, records: Iterable[RawRecord]) -> Iterator[Prepared | Rejection]:
        each = super().prepare_each(records)
        return self._scores.added(each) if self._scores else each

    @override
    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        if self._captions is None:
            return self._with_hashes(super().prepare_batch(records))
        said = self._captions.clean(records)
        left = [row for row in range(len(records)) if row not in said.rejects]
        batch = self._with_hashes(super().prepare_batch([records[row] for row in left]))
        rows = np.array(left, np.int64)[batch.rows]
        captions = [said.captions[row] for row in rows.tolist()]
        statistics = dict(batch.statistics)
        if self._near_captions:
            texts = ["\n".join(own) for own in captions]
            statistics |= near_columns(pa.array(texts, pa.large_string()))
        rejects = [(left[row], rejection) for row, rejection in batch.rejects]
        rejects += [
            (row, rejection.at("prepare").with_data(records[row].original))
            for row, rejection in said.rejects.items()
        ]
        return batch._replace(
            rows=rows,
            values={**batch.values, **self._captions.values(captions)},
            statistics=statistics,
            rejects=sorted(rejects, key=lambda one: one[0]),
        )

    def _with_hashes(self, batch: PreparedBatch) -> PreparedBatch:
        thumbnails = batch.statistics.get("thumbnail")
        if thumbnails is None:
            return batch
        hashes = {"perceptual_hash": perceptual_hashes(thumbnails)}
        return batch._replace(statistics={**batch.statistics, **hashes})

    def _kept(self, data: bytes, counts: bool) -> tuple[DecodedImage, bytes] | None:
        """An image that is stored as it is, and its fingerprint; None if it needs a change.

        Args:
            data: Content of a file; None is returned for a damaged one too.
            counts: Whether its pixels are needed for statistics.
        """
        size = needs_no_change(data)
        if size is None or not keeps_size(*size, self._resize):
            return None
        width, height = size
        if width * height > self._max_pixels:
            return None
        try:
            fingerprint = pixels_hash(width, height, shrunk(data))
            filtered = any(value is not None for value in self._filters.values())
            decodes = filtered or self._near or counts or self._scores is not None
            pixels = decode_jpeg_strictly(data) if decodes else _NO_PIXELS
        except ValueError:
            return None
        return DecodedImage(pixels, "JPEG", width, height), fingerprint

    def _fingerprint(self, stored: bytes, width: int, height: int) -> bytes:
        """A hash of what is stored, so that two files with the same pixels are duplicates."""
        if self._keeps:
            return pixels_hash(width, height, shrunk(stored))
        # Raw pixels do not contain their size: all black rectangles of one area would be equal.
        size = struct.pack("<2q", width, height) if self._encoding == "raw" else b""
        return hashlib.sha256(size + stored).digest()[:16]

    @property
    def confirm(self) -> Callable[[Mapping[str, Any]], bytes] | None:
        """With --quality keep, which computes fingerprints from shrunk images: all pixels."""
        return all_pixels_hash if self._keeps else None

    @override
    def near_duplicates(self, sidecars: Sidecars) -> NearPairs:
        threshold, workers = self._options.near_threshold, self._options.workers
        finders = (near_duplicates,) * self._near + (near_texts,) * self._near_captions
        found_by = [find(sidecars, threshold, workers) for find in finders]
        return found_by[0] if len(found_by) == 1 else near_in_both(*found_by)

    @property
    @override
    def near_search(self) -> NearSearch | None:
        threshold, workers = self._options.near_threshold, self._options.workers
        if self._near and self._near_captions:
            return None
        search = near_texts_search if self._near_captions else near_search
        return search(threshold, workers)

    @override
    def near_earlier_ones(
        self, sidecars: Sidecars, records: IntArray, stored: StoredRecords
    ) -> NearPairs:
        threshold, workers = self._options.near_threshold, self._options.workers
        pairs = []
        if self._near:
            pairs.append(near_earlier_ones(sidecars, records, stored, threshold, workers))
        if self._near_captions:
            pairs.append(near_earlier_texts(sidecars, records, stored, threshold))
        return pairs[0] if len(pairs) == 1 else common_pairs(*pairs)

    @override
    def prepare_shared_artifacts(
        self, workspace: Workspace, sample: TrainingSample
    ) -> tuple[dict[str, Any], list[str]]:
        return (self._captions.config() if self._captions else {}), []

    @override
    def files(self, workspace: Workspace) -> dict[str, Place]:
        return self._captions.files() if self._captions else {}

    @override
    def training_sums(self) -> list[Sums]:
        """As of all records, and mean, standard deviation and range of the channels."""
        return [*super().training_sums(), PixelSums()]

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """A small JPEG."""
        return preview(decode_stored(example, self._encoding))


def all_pixels_hash(example: Mapping[str, Any]) -> bytes:
    """Half of the SHA-256 over the size and all pixels of a stored JPEG."""
    pixels = decode_jpeg_strictly(example["image"][0])
    return pixels_hash(pixels.shape[1], pixels.shape[0], pixels)


def placer_of(options: ImageOptions) -> AnnotationPlacer | None:
    """What makes features of annotations; None without these."""
    if options.mask_column is not None:
        return AnnotationPlacer("masks", (), options.min_visible)
    if options.annotations is None:
        return None
    form, classes = options.annotations_format, options.object_classes
    return AnnotationPlacer(form, classes, options.min_visible)


def _schema(
    options: ImageOptions,
    placer: AnnotationPlacer | None,
    captions: Captions | None,
    scores: Sequence[Feature],
) -> Schema:
    declared = [
        Feature("id", "text"),
        Feature("image", "image", (-1, -1, 3), encoding=options.encoding),
    ]
    if options.encoding == "raw":
        declared += [Feature("height", "int64"), Feature("width", "int64")]
    objects = placer.features if placer else ()
    said = captions.features if captions else ()
    return Schema("image", (*declared, *said, *objects, *further_features(options, scores)))
