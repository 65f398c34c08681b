"""The chunks of a PNG and their checksums, of which Pillow checks only some."""

from __future__ import annotations

import zlib

from beam_jobs.corpus.record import Rejection

_SIGNATURE_BYTES = 8
_FRAME_BYTES = 12  # length, type and checksum around a chunk's data
_ANCILLARY = 0x20  # bit of the first letter: the picture can be decoded without the chunk
# Behind an IDAT chunk with a wrong checksum Pillow gives pixels, and nobody knows whether they are
# right; libpng refuses such a file, and so do we.


def check_png(data: bytes, lenient: bool) -> tuple[bytes, bool]:
    """The data, and whether they are damaged.

    Args:
        data: The whole file, which begins with a PNG signature.
        lenient: Leaves out broken chunks that the picture does not need, in place of refusing them;
            Pillow would refuse them.

    Raises:
        Rejection: Not lenient, and a chunk's checksum is wrong or the end is missing.
    """
    position, damaged, kept = _SIGNATURE_BYTES, False, [data[:_SIGNATURE_BYTES]]
    view = memoryview(data)
    while True:
        end = position + _FRAME_BYTES + int.from_bytes(view[position : position + 4], "big")
        kind = bytes(view[position + 4 : position + 8])
        if end > len(data) or len(kind) < 4:
            if not lenient:
                raise Rejection("truncated", "the file ends before the end chunk (IEND) of a PNG")
            kept.append(data[position:])
            return b"".join(kept) if damaged else data, True
        stored = int.from_bytes(view[end - 4 : end], "big")
        if zlib.crc32(view[position + 4 : end - 4]) == stored:
            kept.append(view[position:end])  # type: ignore[arg-type]
        elif not lenient:
            raise Rejection("corrupt", f"the checksum of chunk {kind!r} of a PNG is wrong")
        else:
            damaged = True
            if not kind[0] & _ANCILLARY:
                kept.append(view[position:end])  # type: ignore[arg-type]
        if kind == b"IEND":
            return b"".join(kept) if damaged else data, damaged
        position = end


def bit_depth(data: bytes) -> int:
    """Bits per sample of a PNG: 1, 2, 4, 8 or 16."""
    return data[24]
