"""Pictures: decode, turn upright, resize, encode; or keep a JPEG that needs no change."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import cv2
import PIL
import pyarrow as pa
import simplejpeg
from PIL import features

from beam_jobs.dedup.images.hash_format import HASH_BYTES, THUMBNAIL_BYTES
from beam_jobs.images.decode import DecodingOptions, Picture, Pixels, decode_image
from beam_jobs.images.decoding_options import parse_background
from beam_jobs.images.encode import ENCODERS
from beam_jobs.images.filters import cleaning_options, make_checks
from beam_jobs.images.jpeg_passthrough import needs_no_change, pixels_hash, shrunk
from beam_jobs.images.payload import ImagePayload
from beam_jobs.images.perception import perceive
from beam_jobs.images.pixel_statistics import NOT_COUNTED, PIXEL_FIELDS, count_pixels
from beam_jobs.images.resize import keeps_size, parse_resize, resize_image
from beam_jobs.images.split_statistics import merge_pixels
from beam_jobs.images.stored import decode_kept, decode_stored, preview
from beam_jobs.options import ImageOptions
from beam_jobs.options.values import parse_quality
from beam_jobs.record_types.base import Prepared, SingleRecords, kept_features
from shard_format import LABELS_FIELD, Feature, Schema, id_hash

# What near duplicates are found by.
PERCEPTION_FIELDS = (
    pa.field("perceptual_hash", pa.binary(HASH_BYTES), nullable=False),
    pa.field("thumbnail", pa.binary(THUMBNAIL_BYTES), nullable=False),
)
# With --quality keep, one picture in so many is decoded in full, for the statistics of pixels.
_COUNTED_OF_KEPT = 8


class ImageRecords(SingleRecords):
    """Input: the bytes of a picture in any format. Output: {"id": "hat/1.jpg", "image": jpeg}."""

    version = 2
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

    def __init__(self, options: ImageOptions) -> None:
        self.payload = ImagePayload(options)
        self._resize = parse_resize(options.resize)
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
        self._checks = make_checks(options)
        self._cleaning = cleaning_options(options)
        self._perceives = options.dedup == "near"
        self.evidence = PERCEPTION_FIELDS if self._perceives else ()
        self.schema = _schema(options)
        self.late_columns = (LABELS_FIELD,) if options.multi_label else ()
        self.confirms = self._keeps

    def stage_options(self) -> dict[str, Any]:
        """Resize mode and box, encoding, bound on pixels, and the versions of the kernels."""
        resize = self._resize
        # Other versions may round differently; a unit that they staged is not ours.
        kernels = [simplejpeg.__version__, cv2.__version__, PIL.__version__]
        if self._encoding == "webp":
            kernels.append(features.version("webp"))
        return {
            "resize": [resize.mode, resize.width, resize.height],
            "encoding": self._encoding,
            "quality": [self._keeps, self._quality],
            "decoding": dataclasses.astuple(self._decoding),
            "cleaning": self._cleaning,
            "perceives": self._perceives,
            "kernels": kernels,
        }

    def prepare(self, record_id: str, data: bytes) -> Prepared:
        """See RecordType."""
        kept = self._kept(record_id, data) if self._keeps else None
        if kept is not None:
            return kept
        picture = decode_image(data, self._decoding)
        for check in self._checks:
            check(picture)
        resized = resize_image(picture.pixels, self._resize, self._max_pixels)
        stored = ENCODERS[self._encoding](resized, self._quality)
        height, width = resized.shape[:2]
        return Prepared(
            values=self._values(record_id, stored, width, height),
            fingerprint=self._fingerprint(stored, width, height),
            statistics={
                "width": width,
                "height": height,
                "source_width": picture.width,
                "source_height": picture.height,
                "source_format": picture.format,
                "source_bytes": len(data),
                **(count_pixels(resized) if self._counts(record_id) else NOT_COUNTED),
                **self._perceived(picture.pixels),
            },
        )

    def confirm(self, stored: bytes) -> bytes:
        """Half of the SHA-256 over the size and all pixels of a stored JPEG."""
        pixels = decode_kept(stored)
        return pixels_hash(pixels.shape[1], pixels.shape[0], pixels)

    def training_statistics(self, index: pa.Table, tally: pa.Table) -> dict[str, Any]:
        """Mean, deviation and range of the channels."""
        pixels = merge_pixels(index)
        return {"pixels": pixels} if pixels else {}

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """See RecordType."""
        return preview(decode_stored(example, self._encoding))

    def _perceived(self, pixels: Pixels) -> dict[str, Any]:
        """What the picture looks like, if near duplicates are looked for."""
        if not self._perceives:
            return {}
        seen = perceive(pixels)
        return {"perceptual_hash": seen.hash, "thumbnail": seen.thumbnail}

    def _kept(self, record_id: str, data: bytes) -> Prepared | None:
        """The record with its own bytes; None if it needs a change, or has damage to be told of."""
        size = needs_no_change(data)
        if size is None or not keeps_size(*size, self._resize):
            return None
        width, height = size
        if width * height > self._max_pixels:
            return None
        counted = NOT_COUNTED
        perceived: dict[str, Any] = {}
        try:
            fingerprint = pixels_hash(width, height, shrunk(data))
            if self._checks or self._perceives or self._counts(record_id):
                pixels = decode_kept(data)
                for check in self._checks:
                    check(Picture(pixels, "JPEG", width, height))
                counted = count_pixels(pixels) if self._counts(record_id) else NOT_COUNTED
                perceived = self._perceived(pixels)
        except ValueError:
            return None
        return Prepared(
            values=self._values(record_id, data, width, height),
            fingerprint=fingerprint,
            statistics={
                "width": width,
                "height": height,
                "source_width": width,
                "source_height": height,
                "source_format": "JPEG",
                "source_bytes": len(data),
                **counted,
                **perceived,
            },
        )

    def _counts(self, record_id: str) -> bool:
        # Of all records alike, changed or not: else those that need a change would weigh more.
        return not self._keeps or id_hash(record_id) % _COUNTED_OF_KEPT == 0

    def _values(self, record_id: str, stored: bytes, width: int, height: int) -> dict[str, Any]:
        size = {"height": height, "width": width} if self._encoding == "raw" else {}
        return {"id": record_id, "image": stored, **size}

    def _fingerprint(self, stored: bytes, width: int, height: int) -> bytes:
        """What is stored decides: two files that decode to the same pixels are one record."""
        if self._keeps:
            return pixels_hash(width, height, shrunk(stored))
        # Raw pixels do not tell their size, and every black square is like every other.
        size = struct.pack("<2q", width, height) if self._encoding == "raw" else b""
        digest = hashlib.sha256(size)
        digest.update(stored)
        return digest.digest()[:16]


def _schema(options: ImageOptions) -> Schema:
    declared = [
        Feature("id", "text"),
        Feature("image", "image", (-1, -1, 3), encoding=options.encoding),
    ]
    if options.encoding == "raw":
        declared += [Feature("height", "int64"), Feature("width", "int64")]
    declared += kept_features(options)
    if not options.no_labels:
        shape = (-1,) if options.multi_label else ()
        declared.append(Feature("label", "class_label", shape, late=True))
    return Schema("image", tuple(declared))
