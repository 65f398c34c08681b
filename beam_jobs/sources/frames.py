"""TFRecord files as others write them: compressed or not, whole or damaged."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.base import Item
from beam_jobs.sources.compression import codec_of
from beam_jobs.sources.forwards import Forwards, open_forwards
from shard_format import DamageError, decode_example, masked_crc
from shard_format.tfrecord import FOOTER_BYTES, HEADER_BYTES

_HEADER = struct.Struct("<QI")
_LOOKED_AT = 16  # records of a file that tell whether it has the features at all
_MAX_LOOK_BYTES = 64 << 20  # 64 MiB; a longer record is not looked at

Features = Mapping[str, Sequence[Any]]


def tfrecord_codec(path: bytes) -> str:
    """How a TFRecord file is compressed.

    Raises:
        Rejection: It is no TFRecord file.
        OSError: It cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES)
    # First: a record of 35,615 bytes begins as a gzip file does.
    if not head or is_frame(head):
        return ""
    codec = codec_of(path)
    if not codec:
        raise Rejection("not-a-tfrecord", "the file does not begin with a record's length and CRC")
    with open_forwards(path, codec) as source:
        head = source.take(HEADER_BYTES)
    if head and not is_frame(head):
        raise Rejection("not-a-tfrecord", f"behind {codec} there is no record's length and CRC")
    return codec


def is_frame(header: bytes) -> bool:
    """Whether these 12 bytes are the length of a record and its checksum."""
    if len(header) < HEADER_BYTES:
        return False
    return masked_crc(header[:8]) == int(_HEADER.unpack_from(header)[1])


def next_size(source: Forwards) -> int | None:
    """Goes over the next record; its bytes, or None at the end.

    Raises:
        Rejection: There is damage.
    """
    header = source.take(HEADER_BYTES)
    if not header:
        return None
    if len(header) < HEADER_BYTES:
        raise Rejection("damaged-file", "the file ends inside the length of a record")
    if not is_frame(header):
        raise Rejection("damaged-file", "the length of a record does not match its checksum")
    size = int(_HEADER.unpack(header)[0])
    if source.skip(size + FOOTER_BYTES) < size + FOOTER_BYTES:
        raise Rejection("damaged-file", f"the file ends inside a record of {size} bytes")
    return size


def first_examples(file: Item, codec: str) -> Iterator[Features]:
    """The first records, as far as they are examples."""
    with open_forwards(file.path, codec) as source:
        for _ in range(_LOOKED_AT):
            try:
                header = source.take(HEADER_BYTES)
                if not is_frame(header) or (size := _HEADER.unpack(header)[0]) > _MAX_LOOK_BYTES:
                    return
                framed = source.take(size + FOOTER_BYTES)
                if len(framed) == size + FOOTER_BYTES:
                    yield decode_example(framed[:-FOOTER_BYTES])
            except (Rejection, DamageError):
                continue


def described(examples: Sequence[Features]) -> str:
    """The names and kinds of all features, for a message."""
    kinds = {
        name: type(values[0]).__name__ if values else "empty"
        for features in examples
        for name, values in features.items()
    }
    text = ", ".join(f"{name!a} ({kind})" for name, kind in sorted(kinds.items())[:30])
    return f"the features {text}" if text else "no feature"
