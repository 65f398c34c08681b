"""What a file holds, by its first bytes; by its name where these do not tell."""

from __future__ import annotations

import os
import re

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.compression import codec_of
from beam_jobs.sources.contents import PICTURES
from beam_jobs.sources.forwards import open_forwards
from beam_jobs.sources.frames import is_frame
from beam_jobs.sources.idx import read_header
from beam_jobs.sources.tar_headers import is_header

PICTURE, OTHER = "picture", "other"

# The value of --source, or PICTURE, by how a file begins.
_MAGIC = {
    b"PK\3\4": "zip",
    b"PK\5\6": "zip",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\xff\xd8\xff": PICTURE,
    b"\x89PNG": PICTURE,
    b"GIF8": PICTURE,
    b"II*\0": PICTURE,
    b"MM\0*": PICTURE,
}
# For files that are empty or damaged.
_NAMES = (
    (re.compile(r"\.tar(\.\w+)?$|\.t(gz|zst|xz|bz2)$"), "tar"),
    (re.compile(r"\.zip$"), "zip"),
    (re.compile(r"\.parquet$"), "parquet"),
    (re.compile(r"\.(arrow|feather)$"), "arrow"),
    (re.compile(r"tfrecord"), "tfrecord"),
    (re.compile(r"idx[134]-ubyte(\.gz)?$"), "idx"),
    (re.compile(rf"\.({'|'.join(sorted(PICTURES))})$"), PICTURE),
)
_HEAD_BYTES = 512  # of a tar header


def kind_of(path: bytes) -> str:
    """The value of --source that reads a file, or PICTURE, or OTHER."""
    try:
        return _by_content(path) or _by_name(path)
    except (OSError, Rejection):
        return _by_name(path)


def _by_content(path: bytes) -> str:
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
    if found:
        return found
    # A TFRecord and a tar may begin with the magic bytes of a codec, so these two come first.
    if kind := _framed(head):
        return kind
    codec = codec_of(path)
    if codec:
        with open_forwards(path, codec) as source:
            return _framed(source.take(_HEAD_BYTES)) or _idx(path)
    return _idx(path)


def _framed(head: bytes) -> str:
    if is_frame(head):
        return "tfrecord"
    return "tar" if is_header(head) and head.strip(b"\0") else ""


def _idx(path: bytes) -> str:
    try:
        read_header(path)
    except Rejection:
        return ""
    return "idx"


def _by_name(path: bytes) -> str:
    name = os.path.basename(path).decode("utf-8", "replace").lower()
    return next((kind for pattern, kind in _NAMES if pattern.search(name)), OTHER)
