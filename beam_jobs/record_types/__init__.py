"""Record types, by the name that the manifest stores."""

from collections.abc import Callable
from typing import Any

from beam_jobs.record_types.base import (
    Prepared,
    PreparedBatch,
    RecordType,
    SingleRecords,
)


def _image(options: Any) -> RecordType:
    from beam_jobs.record_types.image import ImageRecords  # loads OpenCV, so only when needed

    return ImageRecords(options)


def _text(options: Any) -> RecordType:
    from beam_jobs.record_types.text import TextRecords  # loads models, so only when needed

    return TextRecords(options)


# Each takes the options of its own kind, see `beam_jobs.options.OPTIONS`.
RECORD_TYPES: dict[str, Callable[[Any], RecordType]] = {
    "image": _image,
    "text": _text,
}

__all__ = [
    "RECORD_TYPES",
    "Prepared",
    "PreparedBatch",
    "RecordType",
    "SingleRecords",
]
