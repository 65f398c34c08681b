"""Colours to sRGB, with LittleCMS (Pillow's ImageCms).

Perceptual intent, which the ICC means for photographs and browsers use by default, with black point
compensation, as editors have it: black ink on paper becomes black. For the matrix profiles that
cameras and screens have, no intent differs from another.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageCms

# A profile counts as sRGB if it moves no channel by more, in grey levels of [0, 255]. Published
# variants of sRGB move them by 1, Adobe RGB by 143.
_SRGB_TOLERANCE = 2
# Transforms kept, each of at most some 100 KiB. A corpus has a handful of profiles.
_CACHED_TRANSFORMS = 32
_INTENT = ImageCms.Intent.PERCEPTUAL
# NOCACHE: the one-pixel cache inside a transform is what threads may not share.
_FLAGS = ImageCms.Flags.BLACKPOINTCOMPENSATION | ImageCms.Flags.NOCACHE

_SPACES = {"L": "GRAY", "RGB": "RGB ", "CMYK": "CMYK"}  # Pillow's mode: signature in the profile


class _Conversion(NamedTuple):
    """What a profile means for a mode: a transform, nothing (it is sRGB), or that it is broken."""

    transform: ImageCms.ImageCmsTransform | None
    broken: bool = False


_conversions: OrderedDict[tuple[bytes, str], _Conversion] = OrderedDict()
_conversions_lock = threading.Lock()  # never held while C code runs, which may be abandoned


def to_srgb(image: Image.Image, profile: bytes | None, repairs: set[str]) -> Image.Image:
    """The picture in sRGB, or as it was if it has no profile, an sRGB one or a broken one.

    Args:
        image: In mode L, RGB or CMYK.
        profile: The bytes of an ICC profile; empty means that it is known to be broken.
        repairs: Gets "colour" or "profile" where one applies.
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
    """Whether pixels with this profile are sRGB as they are; without a profile they are.

    Args:
        profile: As for to_srgb.
        mode: Pillow's name for the pixels: L, RGB or CMYK.
    """
    if profile is None:
        return True
    conversion = _conversion(profile, mode)
    return conversion.transform is None and not conversion.broken


def lab_to_srgb(image: Image.Image, repairs: set[str]) -> Image.Image:
    """The picture of a CIE L*a*b* one; white is D50, as TIFF and the ICC have it."""
    repairs.add("colour")
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    return _apply(_build(lab, "LAB"), image)


def _conversion(profile: bytes, mode: str) -> _Conversion:
    key = hashlib.sha256(profile).digest(), mode
    with _conversions_lock:
        found = _conversions.get(key)
        if found is not None:
            _conversions.move_to_end(key)
            return found
    made = _make_conversion(profile, mode)  # two threads may both make it, which is harmless
    with _conversions_lock:
        _conversions[key] = made
        while len(_conversions) > _CACHED_TRANSFORMS:
            _conversions.popitem(last=False)
    return made


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
    # The target is made anew, so that no profile is ever read by two threads.
    target = ImageCms.createProfile("sRGB")
    return ImageCms.buildTransform(profile, target, mode, "RGB", _INTENT, _FLAGS)


def _is_identity(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Whether a transform does nothing worth the time, tried on a grid of colours."""
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
