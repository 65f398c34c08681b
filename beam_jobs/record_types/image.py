"""Pictures: decode, turn upright, resize, encode as JPEG."""

from __future__ import annotations

import hashlib
from typing import Any

import cv2
import PIL
import pyarrow as pa
import simplejpeg

from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.encode import encode_jpeg
from beam_jobs.images.resize import parse_resize, resize_image
from beam_jobs.option_values import parse_quality
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types.base import Prepared, RecordType
from shard_format import Feature, Schema


class ImageRecords(RecordType):
    """Input: the bytes of a picture in any format. Output: {"id": "hat/1.jpg", "image": jpeg}."""

    version = 2
    schema = Schema(
        "image",
        (
            Feature("id", "text"),
            Feature("image", "image", (-1, -1, 3), encoding="jpeg"),
            Feature("label", "class_label", late=True),
        ),
    )
    statistics = (
        pa.field("width", pa.int32()),  # pixels, as stored
        pa.field("height", pa.int32()),
        pa.field("source_width", pa.int32()),  # pixels, in the source file
        pa.field("source_height", pa.int32()),
        pa.field("source_format", pa.string()),  # by content, not by name
        pa.field("source_bytes", pa.int64()),
    )

    def __init__(self, options: PreprocessOptions) -> None:
        self._resize = parse_resize(options.resize)
        _, self._quality = parse_quality(options.quality)
        self._max_pixels = options.max_pixels
        self._decoding = DecodingOptions(max_pixels=options.max_pixels)

    def stage_options(self) -> dict[str, Any]:
        """Resize mode and box, quality, bound on pixels, and the versions of the kernels."""
        resize = self._resize
        return {
            "resize": [resize.mode, resize.width, resize.height],
            "quality": self._quality,
            "max_pixels": self._max_pixels,
            # Other versions may round differently; a unit that they staged is not ours.
            "kernels": [simplejpeg.__version__, cv2.__version__, PIL.__version__],
        }

    def prepare(self, record_id: str, data: bytes) -> Prepared:
        """See RecordType."""
        picture = decode_image(data, self._decoding)
        resized = resize_image(picture.pixels, self._resize, self._max_pixels)
        stored = encode_jpeg(resized, self._quality)
        return Prepared(
            values={"id": record_id, "image": stored},
            # What is stored decides: two files that decode to the same pixels are one record.
            fingerprint=hashlib.sha256(stored).digest()[:16],
            statistics={
                "width": resized.shape[1],
                "height": resized.shape[0],
                "source_width": picture.width,
                "source_height": picture.height,
                "source_format": picture.format,
                "source_bytes": len(data),
            },
        )
