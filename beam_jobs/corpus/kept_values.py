"""Values of kept columns: from what a source has in them, and as JSON in a listing."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import orjson

from beam_jobs.corpus.record import Rejection
from shard_format.feature_values import checked
from shard_format.schema import Feature

_TRUTHS = {"true": True, "false": False}
# How images begin that every reader decodes: PNG and JPEG.
_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
_PNG_BIT_DEPTH = 24  # place of this byte in the header


def kept_value(fields: Mapping[str, Any], feature: Feature, shown: str = "") -> Any:
    """The value of a kept column, as `feature_values.checked` returns it.

    Without a value text is empty, and a list or a tensor of any length has none.

    Args:
        fields: Values by column.
        feature: The column as a feature.
        shown: What a message has in the place of the value.

    Raises:
        Rejection: It has a value of another kind.
    """
    value = fields.get(feature.name)
    try:
        if value is None or (feature.dims and isinstance(value, str | bytes) and not value):
            return _empty(feature)
        return _text(value) if feature.form == "text" else _converted(feature, value)
    except (TypeError, ValueError, OverflowError) as error:
        detail = f"the kept column {feature.name!r} must hold {feature.form}"
        detail += f", got {shown or f'{value!r:.80}'}"
        if feature.dims and not shown and value is not None:
            detail += f" ({str(error).partition(': ')[2] or error})"
        raise Rejection("bad-value", detail) from None


def _empty(feature: Feature) -> Any:
    """The value where a source has none.

    Raises:
        ValueError: It must have one.
    """
    if feature.form == "text":
        return ""
    if feature.dims[:1] != (-1,):
        raise ValueError
    if feature.ragged or not feature.type.is_number:
        return []
    return np.zeros([max(0, size) for size in feature.shape], feature.type.dtype)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _converted(feature: Feature, value: Any) -> Any:
    """The value as one of the feature; in text, numbers are decimal and lists are JSON."""
    is_text = isinstance(value, str | bytes)
    if feature.type.is_number and not feature.shape:
        return checked(feature, _number(value, feature.type.dtype))
    if is_text and (feature.dims or feature.type.is_number):
        value = orjson.loads(value)
    if feature.kind == "image":
        value = [_image(one) for one in value] if feature.dims else _image(value)
    return checked(feature, value)


def _number(value: Any, dtype: str) -> bool | int | float:
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        if "_" in value:
            raise ValueError  # Python would take "2020_01" for 202001
        if dtype == "bool":
            value = _TRUTHS.get(value.strip().lower(), value)
    if dtype.startswith("float"):
        return float(value)
    number = int(value)
    if number != (float(value) if isinstance(value, float) else number):
        raise ValueError
    return number


def _image(value: Any) -> bytes:
    """The bytes of an image, also in a struct of Hugging Face.

    Raises:
        ValueError: They are no PNG or JPEG of 8 bits.
    """
    data = value.get("bytes") if isinstance(value, Mapping) else value
    if not isinstance(data, bytes) or not data.startswith(_IMAGES):
        raise ValueError("it is no PNG or JPEG")
    if data.startswith(_IMAGES[0]) and data[_PNG_BIT_DEPTH : _PNG_BIT_DEPTH + 1] == b"\x10":
        raise ValueError("it has 16 bits a channel, more than 8")
    return data


def kept_json(values: Iterable[Any]) -> bytes:
    """Values of kept columns as JSON."""
    return orjson.dumps([_plain(value) for value in values])


def kept_from_json(text: bytes) -> tuple[Any, ...]:
    """The inverse of `kept_json`."""
    return tuple(_restored(value) for value in orjson.loads(text))


def _plain(value: Any) -> Any:
    """A value with what JSON lacks in the form {"type": text}."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": data, "dtype": str(value.dtype), "shape": value.shape}
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    data = base64.b64decode(value["array"])
    return np.frombuffer(data, value["dtype"]).reshape(value["shape"])
