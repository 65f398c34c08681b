"""Pixels of any of Pillow's modes to 8-bit sRGB over a background."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.colour import ToSrgb, lab_to_srgb, later_to_srgb, to_srgb
from beam_jobs.images.decode.base import Pixels

_SIXTEEN_BIT_MODES = ("I;16", "I;16L", "I;16B", "I;16N")
_TIFF_BITS, _TIFF_PHOTOMETRIC, _WHITE_IS_ZERO = 258, 262, 0  # TIFF 6.0, section 8


def to_rgb(
    image: Image.Image, data: bytes, background: tuple[int, int, int], repairs: set[str]
) -> tuple[Pixels, ToSrgb | None]:
    """[height, width, 3] uint8, RGB, C-contiguous, and what converts them to sRGB later.

    Args:
        image: Loaded.
        data: The bytes of its file, since Pillow reads some kinds of transparency incorrectly.
        background: Red, green and blue in [0, 255] that show through.
        repairs: What is done is added to it.

    Raises:
        Rejection: Its mode has no unique conversion to 8-bit RGB.
    """
    colour, alpha = _colour_and_alpha(image, data, repairs)
    if colour.mode == "CMYK":
        repairs.add("colour")
    profile = image.info.get("icc_profile")
    profile = profile if isinstance(profile, bytes) else None
    opaque = alpha is None or alpha.getextrema() == (255, 255)
    if colour.mode == "RGB" and opaque:
        return later_to_srgb(np.ascontiguousarray(np.asarray(colour)), profile, repairs)
    if colour.mode == "LAB":
        colour = lab_to_srgb(colour, repairs)
    else:
        colour = to_srgb(colour, profile, repairs)
    colour = colour.convert("RGB")
    if not opaque:  # the background is sRGB
        repairs.add("alpha")
        below = Image.new("RGB", colour.size, background)
        below.paste(colour, mask=alpha)
        colour = below
    return np.ascontiguousarray(np.asarray(colour)), None


def _colour_and_alpha(
    image: Image.Image, data: bytes, repairs: set[str]
) -> tuple[Image.Image, Image.Image | None]:
    """The image in mode L, RGB, CMYK or LAB, and its opacity in mode L."""
    mode = image.mode
    if mode in _SIXTEEN_BIT_MODES or (mode == "I" and image.format == "PPM"):
        repairs.add("depth")
        return _from_sixteen_bits(image)
    if mode in ("I", "F"):
        raise Rejection(
            "unsupported-mode",
            f"there is no one right way from pixels of mode {mode} to 8-bit RGB",
        )
    is_png = image.format == "PNG"
    if is_png and _png_bit_depth(data) == 16:
        repairs.add("depth")
    if mode in ("LAB", "CMYK"):
        return image, None
    transparent = image.info.get("transparency")
    if is_png and mode == "RGB" and transparent is not None and _png_bit_depth(data) == 16:
        return image.convert("RGB"), _exact_alpha(data)
    if is_png and mode == "L" and isinstance(transparent, int) and _png_bit_depth(data) in (2, 4):
        # Pillow scales the pixels to 8 bits, but not the transparent value.
        image.info["transparency"] = transparent * 255 // (2 ** _png_bit_depth(data) - 1)
    gray = mode in ("1", "L", "LA", "La")
    if not image.has_transparency_data:
        return image.convert("L" if gray else "RGB"), None
    alpha = image.convert("RGBA").getchannel("A")
    if mode in ("La", "RGBa"):  # colours multiplied by alpha, which only these conversions revert
        image = image.convert("LA" if gray else "RGBA")
    image.info.pop("transparency", None)
    return image.convert("L" if gray else "RGB"), alpha


def _from_sixteen_bits(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Gray of 16 or 12 bits. Pillow's own conversion clips at 255, so most of it becomes white."""
    samples: npt.NDArray[np.uint16] = np.asarray(image).astype(np.uint16)
    transparent = image.info.get("transparency")
    alpha = None
    if isinstance(transparent, int):
        alpha = Image.fromarray(np.where(samples == transparent, 0, 255).astype(np.uint8))
    bits, inverted = 16, False
    if image.format == "TIFF":
        tags = image.tag_v2  # type: ignore[attr-defined]
        bits = tags.get(_TIFF_BITS, (16,))[0]
        inverted = tags.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO
    gray = (samples >> (bits - 8)).astype(np.uint8)
    return Image.fromarray(255 - gray if inverted else gray), alpha


def _exact_alpha(data: bytes) -> Image.Image | None:
    """Opacity of a 16-bit RGB PNG with a transparent colour, which Pillow compares in 8 bits."""
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.ndim != 3 or decoded.shape[2] != 4:
        return None
    return Image.fromarray((decoded[:, :, 3] >> 8).astype(np.uint8))


def _png_bit_depth(data: bytes) -> int:
    """Bits per sample of a PNG: 1, 2, 4, 8 or 16."""
    return data[24]
