"""Colours to sRGB, with LittleCMS (Pillow's ImageCms).

Perceptual intent, which the ICC recommends for photographs and browsers use by default, with black
point compensation, as in editors: black ink on paper becomes black. For the matrix profiles of
cameras and screens, all intents are equal.
"""

from __future__ import annotations

import hashlib
import io
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageCms

# A profile counts as sRGB if it changes no channel by more, in grey levels of [0, 255]. Published
# variants of sRGB change them by 1, Adobe RGB by 143.
_SRGB_TOLERANCE = 2
# Cached transforms, of at most some 100 KiB each. A corpus has few profiles.
_CACHED_TRANSFORMS = 32
_INTENT = ImageCms.Intent.PERCEPTUAL
# NOCACHE: threads must not share the one-pixel cache inside a transform.
_FLAGS = ImageCms.Flags.BLACKPOINTCOMPENSATION | ImageCms.Flags.NOCACHE

_SPACES = {"L": "GRAY", "RGB": "RGB ", "CMYK": "CMYK"}  # Pillow's mode: signature in the profile


class _Conversion(NamedTuple):
    """The conversion of a profile and a mode: a transform, none (it is sRGB), or broken."""

    transform: ImageCms.ImageCmsTransform | None
    broken: bool = False


# By the hash of a profile, and the mode. Without a lock: C code that makes one may be abandoned.
_conversions: dict[tuple[bytes, str], _Conversion] = {}


def to_srgb(image: Image.Image, profile: bytes | None, repairs: set[str]) -> Image.Image:
    """The image in sRGB; unchanged if it has no profile, an sRGB one or a broken one.

    Args:
        image: In mode L, RGB or CMYK.
        profile: The bytes of an ICC profile; empty means that it is known to be broken.
        repairs: "colour" or "profile" is added to it where it applies.
    """
    if profile is None:
        return image
    conversion = _conversion(profile, image.mode)
    if conversion.broken:
        repairs.add("profile")
    if conversion.transform is None:
        return image
    repairs.add("colour")
    return _apply(conversion.transform, image)


def is_srgb(profile: bytes | None, mode: str) -> bool:
    """Whether pixels with this profile are sRGB already; they are without a profile.

    Args:
        profile: As for to_srgb.
        mode: Pillow's name for the pixels: L, RGB or CMYK.
    """
    if profile is None:
        return True
    conversion = _conversion(profile, mode)
    return conversion.transform is None and not conversion.broken


def lab_to_srgb(image: Image.Image, repairs: set[str]) -> Image.Image:
    """A CIE L*a*b* image in sRGB; white is D50, as in TIFF and ICC profiles."""
    repairs.add("colour")
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    return _apply(_build(lab, "LAB"), image)


def _conversion(profile: bytes, mode: str) -> _Conversion:
    key = hashlib.sha256(profile).digest(), mode
    conversion = _conversions.get(key)
    if conversion is None:
        conversion = _make_conversion(profile, mode)  # two threads may both make it, without harm
        if len(_conversions) >= _CACHED_TRANSFORMS:
            _conversions.clear()
        _conversions[key] = conversion
    return conversion


def _make_conversion(profile: bytes, mode: str) -> _Conversion:
    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if opened.profile.xcolor_space != _SPACES[mode]:
            return _Conversion(None, broken=True)
        transform = _build(opened, mode)
        return _Conversion(None if _is_identity(transform, mode) else transform)
    except Exception:  # ImageCms raises OSError, its own PyCMSError, and whatever parsing raises.
        return _Conversion(None, broken=True)


def _build(profile: ImageCms.ImageCmsProfile, mode: str) -> ImageCms.ImageCmsTransform:
    # A new target each time, so that no profile is read by two threads.
    target = ImageCms.createProfile("sRGB")
    return ImageCms.buildTransform(profile, target, mode, "RGB", _INTENT, _FLAGS)


def _is_identity(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Whether a transform changes a grid of colours by no more than the tolerance."""
    if mode == "CMYK":
        return False
    levels = np.arange(0, 256, 1 if mode == "L" else 15, dtype=np.uint8)  # 15 * 17 is 255
    grid = levels if mode == "L" else np.stack(np.meshgrid(*[levels] * 3), axis=-1)
    probe = grid.reshape(1, -1) if mode == "L" else grid.reshape(1, -1, 3)
    moved = np.asarray(_apply(transform, Image.fromarray(probe))).astype(int)
    still = probe.reshape(1, -1, 1 if mode == "L" else 3)
    return bool(abs(moved - still).max() <= _SRGB_TOLERANCE)


def _apply(transform: ImageCms.ImageCmsTransform, image: Image.Image) -> Image.Image:
    target = Image.new("RGB", image.size)
    transform.apply(image, target)
    return target
