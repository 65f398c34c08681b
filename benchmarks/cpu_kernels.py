"""Hashes of the output of the image kernels: `python -m benchmarks.cpu_kernels`.

Run it directly, with OPENCV_CPU_DISABLE or JSIMD_FORCENONE set, on another machine, or under
`qemu-x86_64 -cpu Haswell`; the hashes must be equal (docs/decisions/0005-same-bytes.md).
"""

from __future__ import annotations

import hashlib

from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.encode import ENCODERS
from beam_jobs.images.jpeg_passthrough import shrunk
from beam_jobs.images.perceptual_hash import perceive
from beam_jobs.images.resample import FILTERS
from beam_jobs.images.resize import parse_resize, resize_image
from beam_jobs.images.statistics import count_pixels
from benchmarks.corpus import REPOSITORY

_MAX_PIXELS = 10**8
_SHRINK = ("shorter:256", "fit:100x77", "crop:64x64")
_ENLARGE = ("shorter:700",)
_EVERY = 8  # photographs; an emulated CPU is slow


def main() -> None:
    """Prints one hash per kernel."""
    names = ("decoded", "shrunk", "enlarged", *FILTERS, *ENCODERS, "eighth", "counted", "perceived")
    digests = {name: hashlib.sha256() for name in names}
    files = sorted((REPOSITORY / "samples" / "clothing").rglob("*-*-*-*-*.jpg"))[::_EVERY]
    for file in files:
        data = file.read_bytes()
        pixels = decode_image(data, DecodingOptions(_MAX_PIXELS)).pixels
        digests["decoded"].update(pixels.tobytes())
        digests["perceived"].update(b"".join(perceive(pixels)))
        digests["eighth"].update(shrunk(data).tobytes())
        for name in FILTERS:
            for mode in _SHRINK:
                resized = resize_image(pixels, parse_resize(mode, False, name), _MAX_PIXELS)
                digests[name].update(resized.tobytes())
        for mode in (*_SHRINK, *_ENLARGE):
            resized = resize_image(pixels, parse_resize(mode, enlarge=True), _MAX_PIXELS)
            digests["shrunk" if mode in _SHRINK else "enlarged"].update(resized.tobytes())
            for name, encode in ENCODERS.items():
                if mode not in _ENLARGE or name == "jpeg":  # the others take seconds under qemu
                    digests[name].update(encode(resized, 90))
            digests["counted"].update(repr(count_pixels(resized)).encode())
    print(f"{len(files)} photographs")
    for name, digest in digests.items():
        print(f"{name:<10}{digest.hexdigest()}")


if __name__ == "__main__":
    main()
