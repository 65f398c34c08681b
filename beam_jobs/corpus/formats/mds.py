"""Shards of MosaicML Streaming (MDS), whose columns are in a header of JSON.

The layout is that of MDSWriter: streaming/base/format/mds of mosaicml-streaming 0.13.
"""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.formats.columnar import Columnar, ColumnFile
from beam_jobs.corpus.formats.sample_file import SampleColumn, SampleFile
from beam_jobs.corpus.streams import ByteStream

_NUMBERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_FLOATS = ("float16", "float32", "float64")
_WORD = 4


class Mds(Columnar):
    """Samples of MDS shards."""

    @override
    def open_file(self, file: ByteStream) -> ColumnFile:
        return _MdsFile(file)


class _MdsFile(SampleFile):
    """A shard; a sample is the sizes of its values, where they vary, and the values."""

    @override
    def read_columns(self, file: ByteStream, end: int) -> dict[str, SampleColumn]:
        header = json.loads(file.read(max(0, end - file.tell())))
        try:
            self._names = [str(name) for name in header["column_names"]]
            self._sizes = [None if size is None else int(size) for size in header["column_sizes"]]
            encodings = [str(encoding) for encoding in header["column_encodings"]]
            columns = dict(zip(self._names, encodings, strict=True))
            if len(self._sizes) != len(columns):
                raise ValueError("its header names a column twice")
        except (KeyError, TypeError) as error:
            raise ValueError(f"its header lacks {error}") from None
        known = {name: _column(encoding) for name, encoding in columns.items()}
        return {name: column for name, column in known.items() if column is not None}

    @override
    def cells(self, sample: bytes) -> dict[str, bytes]:
        varying = self._sizes.count(None)
        lengths = iter(np.frombuffer(sample, "<u4", varying).tolist())
        position, cells = _WORD * varying, {}
        for name, size in zip(self._names, self._sizes, strict=True):
            end = position + (next(lengths) if size is None else size)
            cells[name] = sample[position:end]
            position = end
        if position != len(sample):
            raise ValueError(f"a sample has {len(sample)} bytes, and its values {position}")
        return cells


def _column(encoding: str) -> SampleColumn | None:
    """How values in an encoding are decoded; None for one that is not read, such as pickles."""
    name, _, form = encoding.partition(":")
    if name in ("bytes", "jpeg", "png"):
        return SampleColumn(pa.binary(), bytes)
    if name in ("str", "json", "str_int", "str_float", "str_decimal"):
        return SampleColumn(pa.string(), bytes.decode)
    if name == "int" or name in _NUMBERS or name in _FLOATS:
        dtype = np.dtype("int64" if name == "int" else name)
        return SampleColumn(pa.from_numpy_dtype(dtype), functools.partial(_number, dtype))
    if name == "ndarray" and form:
        element, _, sizes = form.partition(":")
        dtype = np.dtype(element)
        shape = tuple(map(int, sizes.split(","))) if sizes else None
        kind = pa.from_numpy_dtype(dtype)
        for _ in shape or (1,):
            kind = pa.list_(kind)
        return SampleColumn(kind, functools.partial(_array, dtype, shape))
    return None


def _number(dtype: np.dtype[Any], data: bytes) -> Any:
    return np.frombuffer(data, dtype, 1)[0]


def _array(dtype: np.dtype[Any], shape: tuple[int, ...] | None, data: bytes) -> list[Any]:
    """The values of an array, in nested lists.

    Raises:
        ValueError: It has another size, or several dimensions which its column does not declare.
    """
    if shape is None:
        # The number of dimensions, and of bytes of a size as a power of 2; then the sizes.
        dims, width = data[0] >> 2, 1 << (data[0] & 3)
        if dims != 1:
            raise ValueError(f"an array has {dims} dimensions, and its column does not say which")
        data = data[1 + width :]
        shape = (len(data) // dtype.itemsize,)
    if len(data) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"an array of shape {list(shape)} has {len(data)} bytes")
    return list(np.frombuffer(data, dtype).reshape(shape).tolist())
