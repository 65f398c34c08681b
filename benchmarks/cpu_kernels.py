"""Hashes what the image kernels give: `python -m benchmarks.cpu_kernels`.

Run it as it is, with OPENCV_CPU_DISABLE or JSIMD_FORCENONE set, on another machine, or under
`qemu-x86_64 -cpu Haswell`; the hashes must be equal (docs/decisions/0005-same-bytes.md).
"""

from __future__ import annotations

import hashlib

from beam_jobs.images.decode import decode_image
from beam_jobs.images.encode import encode_jpeg
from beam_jobs.images.perception import perceive
from beam_jobs.images.resize import parse_resize, resize_image
from benchmarks.corpus import REPOSITORY

_MAX_PIXELS = 10**8
_SHRINK = ("shorter:256", "fit:100x77", "crop:64x64")
_ENLARGE = ("shorter:700",)
_EVERY = 8  # photographs; an emulated CPU is slow


def main() -> None:
    """Prints one hash per kernel."""
    names = ("decoded", "shrunk", "enlarged", "encoded", "perceived")
    digests = {name: hashlib.sha256() for name in names}
    files = sorted((REPOSITORY / "samples" / "clothing").rglob("*-*-*-*-*.jpg"))[::_EVERY]
    for file in files:
        pixels = decode_image(file.read_bytes(), _MAX_PIXELS).pixels
        digests["decoded"].update(pixels.tobytes())
        digests["perceived"].update(b"".join(perceive(pixels)))
        for mode in (*_SHRINK, *_ENLARGE):
            resized = resize_image(pixels, parse_resize(mode), _MAX_PIXELS)
            digests["shrunk" if mode in _SHRINK else "enlarged"].update(resized.tobytes())
            digests["encoded"].update(encode_jpeg(resized, 90))
    print(f"{len(files)} photographs")
    for name, digest in digests.items():
        print(f"{name:<10}{digest.hexdigest()}")


if __name__ == "__main__":
    main()
