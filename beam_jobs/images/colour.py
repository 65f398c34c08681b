"""Colours to sRGB, with LittleCMS (Pillow's ImageCms).

Perceptual intent, which the ICC recommends for photographs and browsers use by default, with black
point compensation, as in editors: black ink on paper becomes black. For the matrix profiles of
cameras and screens, all intents are equal.

A profile is judged once per process: sRGB, broken, or with a transform, which is kept. LittleCMS
takes some 30 ns a pixel, more than decoding, so RGB images are converted after they are shrunk,
where that gives the same colours: docs/decisions/0031-colours-after-resizing.md.
"""

from __future__ import annotations

import hashlib
import io
import threading
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

Pixels = npt.NDArray[np.uint8]

# A profile counts as sRGB if it changes no channel by more, in grey levels of [0, 255]. Published
# variants of sRGB change them by 1, Adobe RGB by 143.
_SRGB_TOLERANCE = 1
# Resizing mixes neighbours. RGB that mixes alike in the space of a profile and in sRGB may be
# converted after it: where the mean of any two grays is the same in both, within these grey levels.
# It is within 0 in Display P3, 6 in Adobe RGB and others with a gamma of 2.2, 19 in ProPhoto RGB
# (1.8), 60 in linear light.
_MIXING_TOLERANCE = 8
# Judged profiles. To judge one takes 7 ms; a transform has some 100 KiB, that of CMYK 500.
_CACHED_PROFILES = 128
_INTENT = ImageCms.Intent.PERCEPTUAL
# NOCACHE: threads must not share the one-pixel cache inside a transform.
_FLAGS = ImageCms.Flags.BLACKPOINTCOMPENSATION | ImageCms.Flags.NOCACHE

_SPACES = {"L": "GRAY", "RGB": "RGB ", "CMYK": "CMYK"}  # Pillow's mode: signature in the profile


class ToSrgb:
    """Converts RGB pixels of a colour space to sRGB; may be called by many threads."""

    def __init__(self, transform: ImageCms.ImageCmsTransform) -> None:
        self._transform = transform

    def __call__(self, pixels: Pixels) -> Pixels:
        """Pixels of the same shape, [height, width, 3] uint8, C-contiguous."""
        converted = _apply(self._transform, Image.fromarray(pixels))
        return np.ascontiguousarray(np.asarray(converted))


class _Profile(NamedTuple):
    """A judged profile, for pixels of one mode.

    Attributes:
        transform: To sRGB; None if they are sRGB, or if the profile is broken.
        broken: It is no profile of this mode that LittleCMS can use.
        mixes: Resizing before the transform gives the same colours as behind it.
        levels: [256, 3] uint8, the sRGB of every level of gray; for mode L alone.
    """

    transform: ImageCms.ImageCmsTransform | None
    broken: bool = False
    mixes: bool = False
    levels: Pixels | None = None


# By the hash of a profile, and the mode; the least recently used first. The lock is for the
# dictionary alone: C code that judges a profile may be abandoned (`decode/time_limit.py`).
_profiles: dict[tuple[bytes, str], _Profile] = {}
_lock = threading.Lock()


def to_srgb(image: Image.Image, profile: bytes | None, repairs: set[str]) -> Image.Image:
    """The image in sRGB; unchanged if it has no profile, an sRGB one or a broken one.

    Args:
        image: Image in mode L, RGB or CMYK.
        profile: The bytes of an ICC profile; empty means that it is known to be broken.
        repairs: "colour" or "profile" is added to it where it applies.
    """
    judged = _judged(profile, image.mode, repairs)
    if judged is None or judged.transform is None:
        return image
    if judged.levels is not None:
        return Image.fromarray(judged.levels[np.asarray(image)])
    return _apply(judged.transform, image)


def later_to_srgb(
    pixels: Pixels, profile: bytes | None, repairs: set[str]
) -> tuple[Pixels, ToSrgb | None]:
    """The pixels, and what converts them to sRGB once they are resized.

    Pixels that must be converted before they are resized are converted here, and nothing is left.

    Args:
        pixels: [height, width, 3] uint8, RGB.
        profile: See `to_srgb`.
        repairs: See `to_srgb`.
    """
    judged = _judged(profile, "RGB", repairs)
    if judged is None or judged.transform is None:
        return pixels, None
    convert = ToSrgb(judged.transform)
    return (pixels, convert) if judged.mixes else (convert(pixels), None)


def is_srgb(profile: bytes | None, mode: str) -> bool:
    """Whether pixels with this profile are sRGB already; they are without a profile.

    Args:
        profile: See `to_srgb`.
        mode: Pillow's name for the pixels: L, RGB or CMYK.
    """
    repairs: set[str] = set()
    _judged(profile, mode, repairs)
    return not repairs


def lab_to_srgb(image: Image.Image, repairs: set[str]) -> Image.Image:
    """A CIE L*a*b* image in sRGB; white is D50, as in TIFF and ICC profiles."""
    repairs.add("colour")
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
    return _apply(_build(lab, "LAB"), image)


def _judged(profile: bytes | None, mode: str, repairs: set[str]) -> _Profile | None:
    """Looks up or judges a profile; None without one. See to_srgb for `repairs`."""
    if profile is None:
        return None
    key = hashlib.sha256(profile).digest(), mode
    with _lock:
        judged = _profiles.pop(key, None)
        if judged is not None:
            _profiles[key] = judged
    if judged is None:
        judged = _judge(profile, mode)  # two threads may both do it, without harm
        with _lock:
            _profiles[key] = judged
            if len(_profiles) > _CACHED_PROFILES:
                del _profiles[next(iter(_profiles))]
    if judged.broken:
        repairs.add("profile")
    elif judged.transform is not None:
        repairs.add("colour")
    return judged


def _judge(profile: bytes, mode: str) -> _Profile:
    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if opened.profile.xcolor_space != _SPACES[mode]:
            return _Profile(None, broken=True)
        transform = _build(opened, mode)
        if mode == "CMYK":
            return _Profile(transform)
        probe = _probe(mode)
        moved = np.asarray(_apply(transform, Image.fromarray(probe)))
    except Exception:  # ImageCms raises OSError, its own PyCMSError, and whatever parsing raises.
        return _Profile(None, broken=True)
    grays = moved[0, :256]
    still = probe.reshape(1, -1, 1 if mode == "L" else 3)
    if _farthest(moved, still) <= _SRGB_TOLERANCE:
        return _Profile(None)
    if mode == "L":
        return _Profile(transform, levels=grays.copy())
    return _Profile(transform, mixes=_mixing_error(grays) <= _MIXING_TOLERANCE)


def _probe(mode: str) -> Pixels:
    """[1, n] or [1, n, 3]: all levels of gray, then of RGB a cube of colours."""
    grays = np.arange(256, dtype=np.uint8)
    if mode == "L":
        return grays[np.newaxis]
    steps = np.arange(0, 256, 15, dtype=np.uint8)  # 15 * 17 is 255
    cube = np.stack(np.meshgrid(*[steps] * 3), axis=-1).reshape(-1, 3)
    return np.concatenate([np.repeat(grays[:, np.newaxis], 3, axis=1), cube])[np.newaxis]


def _mixing_error(grays: Pixels) -> float:
    """The greatest distance from the mean of two grays to the mean of their conversions."""
    levels, values = np.arange(0, 256, 2), grays.astype(float)
    means = (levels[:, np.newaxis] + levels) // 2
    ends = values[::2]
    return float(abs(values[means] - (ends[:, np.newaxis] + ends) / 2).max())


def _farthest(some: npt.NDArray[Any], others: npt.NDArray[Any]) -> int:
    return int(abs(some.astype(int) - others.astype(int)).max())


def _build(profile: ImageCms.ImageCmsProfile, mode: str) -> ImageCms.ImageCmsTransform:
    # A new target each time, so that no profile is read by two threads.
    target = ImageCms.createProfile("sRGB")
    return ImageCms.buildTransform(profile, target, mode, "RGB", _INTENT, _FLAGS)


def _apply(transform: ImageCms.ImageCmsTransform, image: Image.Image) -> Image.Image:
    target = Image.new("RGB", image.size)
    transform.apply(image, target)
    return target
