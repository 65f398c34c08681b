"""Strings and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from shard_format.features.base import FeatureKind, Json, described, dimensions, shown


class Text(FeatureKind):
    """A string, which is stored as UTF-8."""

    storage = "bytes_list"

    @override
    def checked(self, value: Any, shape: Sequence[int]) -> str:
        if isinstance(value, bytes):
            return value.decode()
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is {_type_of(value)}, not a string")
        value.encode()  # else a lone surrogate would fail where it is stored
        return value

    @override
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        return described("text_feature", "Text", text={})


class Bytes(FeatureKind):
    """Bytes, which are stored as they are."""

    storage = "bytes_list"

    @override
    def checked(self, value: Any, shape: Sequence[int]) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(f"{shown(value)} is {_type_of(value)}, not bytes")
        return bytes(value)

    @override
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        return opaque_bytes()


def opaque_bytes() -> Json:
    """The JSON of bytes that TFDS hands out as they are stored."""
    tensor = {"shape": dimensions(()), "dtype": "string", "encoding": "none"}
    return described("tensor_feature", "Tensor", tensor=tensor)


def _type_of(value: Any) -> str:
    return type(value).__name__
