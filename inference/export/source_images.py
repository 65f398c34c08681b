"""What preprocessing did to an image file, in TensorFlow operations: decode, turn, resize, encode.

A served model gets photographs as they were before preprocessing. JPEG is decoded and shrunk to
the same pixels. What may differ is documented in docs/export.md: color profiles are not converted,
TensorFlow's JPEG encoder has another DCT, and WebP is not encoded at all.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from inference.export.first_frames import first_gif_frame, first_webp_frame
from inference.export.image_headers import begins, check_pixels, require
from inference.export.orientation import orientation, turned_upright
from inference.export.resizing import FILTERS, resize
from shard_format import UsageError

_DEFAULT_QUALITY = 90  # of --quality keep
_DEFAULT_MAX_PIXELS = 89_478_485  # of --max-pixels
_MODES = ("shorter", "fit", "crop", "pad", "none")
_WHITE = (255, 255, 255)


@dataclasses.dataclass(frozen=True)
class SourceImages:
    """The preprocessing of a set of images.

    Attributes:
        mode: Mode of --resize.
        width: Width of the box of --resize in pixels; for "shorter" the side.
        height: Height of that box in pixels; for "shorter" the side.
        enlarge: Whether smaller images are scaled up.
        filter: Value of --resize-filter, by which larger images are scaled down.
        encoding: Encoding of the images in the set: "jpeg", "png", "webp" or "raw".
        quality: Quality of JPEG, 1 to 100.
        keeps: Whether a JPEG that needs no change keeps its bytes.
        background: Red, green and blue in [0, 255] that show through.
        max_pixels: Most pixels that a file may declare, and that an image may have when resized.
    """

    mode: str
    width: int
    height: int
    enlarge: bool
    filter: str
    encoding: str
    quality: int
    keeps: bool
    background: tuple[int, int, int]
    max_pixels: int

    @property
    def stores(self) -> str:
        """The encoding of what `stored` returns: lossless where TensorFlow cannot encode it."""
        return "jpeg" if self.encoding == "jpeg" else "png"

    def stored(self, data: Any) -> Any:
        """The bytes of an image file -> the bytes that a record has, scalar strings."""
        data = check_pixels(data, self.max_pixels)
        is_jpeg = begins(data, b"\xff\xd8")
        number = tf.cond(is_jpeg, lambda: orientation(data), lambda: tf.constant(1))
        pixels = turned_upright(_decoded(data, is_jpeg, self.background), number)
        done = self._resized(pixels)
        if self.stores == "png":
            return tf.io.encode_png(done, compression=1)
        encoded = tf.io.encode_jpeg(
            done, format="rgb", quality=self.quality, chroma_downsampling=True
        )
        if not self.keeps:
            return encoded
        same = tf.reduce_all(tf.equal(tf.shape(done), tf.shape(pixels)))
        return tf.where(is_jpeg & (number == 1) & same, data, encoded)

    def _resized(self, image: Any) -> Any:
        if self.mode == "none":
            return image
        height, width = tf.shape(image)[0], tf.shape(image)[1]
        if self.mode == "crop":
            image = self._cut(image, height, width)
            smaller = self._stays_smaller(*self._scale(height, width))
            size = tf.shape(image)[:2]
            size = tf.where(smaller, size, [self.height, self.width])
            return self._scaled(image, size[0], size[1])
        numerator, denominator = self._scale(height, width)
        smaller = self._stays_smaller(numerator, denominator)
        done = self._scaled(
            image,
            tf.where(smaller, height, _part(height, numerator, denominator)),
            tf.where(smaller, width, _part(width, numerator, denominator)),
        )
        if self.mode != "pad":
            return done
        free = [self.height, self.width] - tf.shape(done)[:2]
        before = free // 2
        around = tf.stack([before, free - before], axis=1)
        return tf.pad(done, tf.concat([around, [[0, 0]]], axis=0))

    def _scaled(self, image: Any, height: Any, width: Any) -> Any:
        """Scales to a size within the limits: --enlarge makes a thin strip huge."""
        message = tf.strings.format(
            "it would be {} x {} pixels after --resize, and --max-pixels of the set is "
            f"{self.max_pixels}",
            (width, height),
        )
        fits = tf.cast(width, tf.int64) * tf.cast(height, tf.int64) <= self.max_pixels
        return resize(require(fits, message, image), height, width, self.filter)

    def _scale(self, height: Any, width: Any) -> tuple[Any, Any]:
        """(numerator, denominator) of the factor that makes an image as large as is asked for."""
        if self.mode == "shorter":
            return tf.constant(self.width), tf.minimum(height, width)
        wider = self._is_wider(height, width)
        if self.mode == "crop":
            wider = ~wider
        return (
            tf.where(wider, self.width, self.height),
            tf.where(wider, width, height),
        )

    def _is_wider(self, height: Any, width: Any) -> Any:
        return width * self.height >= height * self.width

    def _stays_smaller(self, numerator: Any, denominator: Any) -> Any:
        return tf.constant(False) if self.enlarge else numerator > denominator

    def _cut(self, image: Any, height: Any, width: Any) -> Any:
        """The largest part in the middle that has the aspect ratio of the box."""
        cut_width = _part(tf.constant(self.width), height, tf.constant(self.height))
        cut_height = _part(tf.constant(self.height), width, tf.constant(self.width))
        wider = self._is_wider(height, width)
        rows = tf.where(wider, height, tf.minimum(height, cut_height))
        columns = tf.where(wider, tf.minimum(width, cut_width), width)
        smaller = self._stays_smaller(*self._scale(height, width))
        whole = smaller & ((cut_width == width) | (cut_height == height))
        rows, columns = tf.where(whole, height, rows), tf.where(whole, width, columns)
        top, left = (height - rows) // 2, (width - columns) // 2
        return image[top : top + rows, left : left + columns]


def source_images(config: Mapping[str, Any], encoding: str) -> SourceImages:
    """The preprocessing of a set.

    Args:
        config: Configuration in the manifest of the set.
        encoding: Encoding of the images in the set.

    Raises:
        UsageError: An option is not known to this version.
    """
    mode, _, size = str(config.get("resize", "none")).partition(":")
    sides = [int(side) for side in re.findall(r"\d+", size)]
    if mode not in _MODES or (mode != "none" and not sides):
        raise UsageError(
            f"The set was built with --resize {config.get('resize')}, which this version does not "
            f"know: it has {', '.join(_MODES)}. Export with the version that built it."
        )
    resize_filter = str(config.get("resize_filter", "area"))
    if resize_filter not in FILTERS:
        raise UsageError(
            f"The set was built with --resize-filter {resize_filter}, which this version does not "
            f"know: it has {', '.join(FILTERS)}. Export with the version that built it."
        )
    width, height = (sides * 2)[:2] or (0, 0)
    quality = str(config.get("quality", _DEFAULT_QUALITY))
    digits = quality.rpartition(":")[2]
    return SourceImages(
        mode=mode,
        width=width,
        height=height,
        enlarge=bool(config.get("enlarge", False)),
        filter=resize_filter,
        encoding=encoding,
        quality=int(digits) if digits.isdecimal() else _DEFAULT_QUALITY,
        keeps=quality.startswith("keep"),
        background=_color(str(config.get("background", "white"))),
        max_pixels=int(config.get("max_pixels", _DEFAULT_MAX_PIXELS)),
    )


def _color(text: str) -> tuple[int, int, int]:
    if not text.startswith("#"):
        return _WHITE
    red, green, blue = bytes.fromhex(text[1:])
    return red, green, blue


def _decoded(data: Any, is_jpeg: Any, background: tuple[int, int, int]) -> Any:
    """An image file, by its content -> [height, width, 3] uint8, as stored in it."""
    return tf.case(
        [
            (
                is_jpeg,
                lambda: tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"),
            ),
            (begins(data, b"\x89PNG"), lambda: _over(tf.io.decode_png(data, 4), background)),
            (begins(data, b"RIFF"), lambda: _over(first_webp_frame(data), background)),
            (begins(data, b"GIF8"), lambda: tf.io.decode_gif(first_gif_frame(data))[0]),
        ],
        default=lambda: tf.io.decode_bmp(data, channels=3),
    )


def _over(image: Any, background: tuple[int, int, int]) -> Any:
    """[height, width, 4] uint8 over a color, with Pillow's rounding."""
    return tf.cond(
        tf.reduce_all(tf.equal(image[..., 3], 255)),
        lambda: image[..., :3],
        lambda: _mixed(image, tf.constant(background, tf.uint16)),
    )


def _mixed(image: Any, background: Any) -> Any:
    # No sum is above 255 * 255 + 128 + 255, so 16 bits hold it.
    color, alpha = tf.cast(image[..., :3], tf.uint16), tf.cast(image[..., 3:], tf.uint16)
    mixed = color * alpha + background * (255 - alpha) + 128
    return tf.cast((mixed // 256 + mixed) // 256, tf.uint8)


def _part(side: Any, numerator: Any, denominator: Any) -> Any:
    """The side times numerator / denominator, rounded half up, at least 1."""
    side, numerator, denominator = (tf.cast(n, tf.int64) for n in (side, numerator, denominator))
    part = (2 * side * numerator + denominator) // (2 * denominator)
    return tf.cast(tf.maximum(part, 1), tf.int32)
