"""Chunks of LitData, whose columns are in the index.json of their folder.

The layout is that of BinaryWriter and its serializers: litdata/streaming of litdata 0.2.76. A chunk
whose rows are plain values ends with the same rows as a file of Arrow, which is what is read then.
"""

from __future__ import annotations

import functools
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.formats.arrow import ArrowFile
from beam_jobs.corpus.formats.base import FilePart, Split
from beam_jobs.corpus.formats.columnar import Columnar, ColumnFile
from beam_jobs.corpus.formats.sample_file import SampleColumn, SampleFile
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import place_of
from beam_jobs.corpus.streams import ByteStream
from foundation import storage
from foundation.storage import Place

INDEX = "index.json"
_FOOTER = struct.Struct("<I8s")  # size of the file of Arrow before it, and:
_ARROW_MAGIC = b"LDARW01\0"
_DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_BYTES = ("bytes", "jpeg", "image", "file", "video", "audio", "pdf", "tifffile")
_SCALARS = {"int": (pa.int64(), "<q"), "float": (pa.float64(), "<d"), "bool": (pa.bool_(), "?")}
_WORD = 4


class LitData(Columnar):
    """Samples of LitData chunks, which are not split."""

    @override
    def open_file(self, file: ByteStream) -> ColumnFile:
        raise Rejection("not-a-chunk", "its columns are in the index.json of its folder")

    @override
    def open_part(self, file: ByteStream, part: FilePart) -> ColumnFile:
        size = file.seek(0, os.SEEK_END)
        if size > _FOOTER.size:
            file.seek(size - _FOOTER.size)
            length, magic = _FOOTER.unpack(file.read(_FOOTER.size))
            if magic == _ARROW_MAGIC:
                end = size - _FOOTER.size
                file.seek(max(0, end - length))
                return ArrowFile(pa.BufferReader(file.read(length)), is_file=True)
        return _Chunk(file, *_columns_of(part.path))

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        return [Split(0, -1, 0, size)]


class _Chunk(SampleFile):
    """A chunk; a sample is the sizes of its values, and the values.

    Args:
        file: See SampleFile.
        names: Names of the values, in order.
        formats: Names of their serializers.
    """

    def __init__(self, file: ByteStream, names: list[str], formats: list[str]) -> None:
        self._names, self._formats = names, formats
        super().__init__(file)

    @override
    def read_columns(self, file: ByteStream, end: int) -> dict[str, SampleColumn]:
        known = {name: _column(form) for name, form in zip(self._names, self._formats, strict=True)}
        return {name: column for name, column in known.items() if column is not None}

    @override
    def cells(self, sample: bytes) -> dict[str, bytes]:
        lengths = np.frombuffer(sample, "<u4", len(self._names)).tolist()
        position, cells = _WORD * len(lengths), {}
        for name, length in zip(self._names, lengths, strict=True):
            cells[name] = sample[position : position + length]
            position += length
        if position != len(sample):
            raise ValueError(f"a sample has {len(sample)} bytes, and its values {position}")
        return cells


def _columns_of(path: bytes) -> tuple[list[str], list[str]]:
    """Names and serializers of the values of the chunks in the folder of a file.

    Raises:
        Rejection: The folder has no index, or its chunks are of another kind.
    """
    place = place_of(os.path.join(os.path.dirname(path), INDEX.encode()))
    try:
        return _read_columns(place, storage.stat(place))
    except OSError as error:
        raise Rejection("no-index", f"its folder has no {INDEX} ({error.strerror})") from None


@functools.lru_cache(16)  # a folder may have 100,000 chunks, and an index with a line for each
def _read_columns(place: Place, version: object) -> tuple[list[str], list[str]]:
    try:
        config = json.loads(storage.read_bytes(place))["config"]
        formats = [str(form) for form in config["data_format"]]
        names = list(_names(json.loads(config["data_spec"])[1]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Rejection("no-index", f"{INDEX} of its folder is damaged: {error!r}") from None
    loader, level = config.get("item_loader"), config.get("compression_level")
    if loader != "PyTreeLoader" or level in ("batch", "sample") or config.get("encryption"):
        how = "encrypted" if config.get("encryption") else f"for {loader}, compressed by {level}"
        raise Rejection("unknown-chunks", f"its samples are {how}")
    if len(names) != len(formats):
        raise Rejection("no-index", f"{INDEX} names {len(names)} values of {len(formats)}")
    return names, formats


def _names(spec: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Names of the leaves of a tree, as torch.utils._pytree describes it."""
    children: Sequence[Mapping[str, Any]] = spec["children_spec"]
    if spec["type"] is None:
        yield path
        return
    is_dict = str(spec["type"]).endswith(("dict", "OrderedDict"))
    keys = json.loads(spec["context"]) if is_dict else range(len(children))
    for key, child in zip(keys, children, strict=True):
        yield from _names(child, f"{path}/{key}" if path else str(key))


def _column(form: str) -> SampleColumn | None:
    """How the values of a serializer are decoded; None for one that is not read."""
    name, _, number = form.partition(":")
    if name in _BYTES:
        return SampleColumn(pa.binary(), bytes)
    if name in ("str", "text"):
        return SampleColumn(pa.string(), bytes.decode)
    if name in _SCALARS:
        kind, layout = _SCALARS[name]
        return SampleColumn(kind, lambda data: struct.unpack(layout, data)[0])
    if name == "no_header_numpy" and number.isdecimal() and int(number) < len(_DTYPES):
        dtype = np.dtype(_DTYPES[int(number)])
        decode = functools.partial(_array, dtype)
        return SampleColumn(pa.list_(pa.from_numpy_dtype(dtype)), decode)
    return None


def _array(dtype: np.dtype[Any], data: bytes) -> list[Any]:
    return list(np.frombuffer(data, dtype).tolist())
