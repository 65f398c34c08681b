"""RGB pixels to the bytes that a shard stores."""

from __future__ import annotations

import simplejpeg

from beam_jobs.images.decode import Pixels


def encode_jpeg(image: Pixels, quality: int) -> bytes:
    """A baseline JPEG with 4:2:0 chroma, as cameras write it.

    Args:
        image: [height, width, 3] uint8, RGB, sides in [1, 65500].
        quality: libjpeg's scale, 1 to 100.
    """
    encoded: bytes = simplejpeg.encode_jpeg(
        image, quality=quality, colorspace="RGB", colorsubsampling="420", fastdct=False
    )
    return encoded
