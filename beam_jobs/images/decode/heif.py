"""HEIC, the format of phones, with Pillow's plugin pi_heif: an extra, loaded by the first file.

libheif turns an image as its container says and takes the orientation out of its Exif data, so it
is turned once. What has more than 8 bits is reduced to 8.
"""

from __future__ import annotations

import functools
import importlib.metadata

from PIL import Image

from beam_jobs.corpus.record import Rejection

FORMAT = "HEIF"  # Pillow's name
# ISO/IEC 23008-12, annex B: images coded with HEVC, and the brand that any coding may have.
_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_FILE_TYPE, _BRAND_BYTES = slice(4, 8), 4


def is_heif(data: bytes) -> bool:
    """Whether a file is a HEIC, or another HEIF that is no AVIF, by its file type box."""
    if data[_FILE_TYPE] != b"ftyp" or data[8:12] not in _BRANDS:
        return False
    end = min(int.from_bytes(data[:4], "big"), 256)
    compatible = [data[at : at + _BRAND_BYTES] for at in range(16, end, _BRAND_BYTES)]
    return b"avif" not in compatible


def version() -> str:
    """The version of the decoder; empty if it is not installed."""
    try:
        return importlib.metadata.version("pi_heif")
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def load_decoder() -> None:
    """Makes Pillow read HEIC.

    Raises:
        Rejection: The extra is not installed.
    """
    try:
        import pi_heif
    except ImportError as error:
        detail = (
            "HEIC is read with an extra. Run: pip install 'shardmill[heic]', then the job again"
        )
        raise Rejection("unsupported-format", detail) from error
    # Beam already uses every core; threads inside a decoder would only compete with it.
    pi_heif.register_heif_opener(
        decode_threads=1, thumbnails=False, depth_images=False, aux_images=False
    )


def has_more_than_eight_bits(image: Image.Image) -> bool:
    """Whether a HEIC, opened by Pillow, was reduced to 8 bits."""
    return image.format == FORMAT and image.info.get("bit_depth", 8) > 8
