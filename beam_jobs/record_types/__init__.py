"""Record types, by the name that the manifest stores."""

from collections.abc import Callable

from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types.base import Prepared, RecordType


def _image(options: PreprocessOptions) -> RecordType:
    from beam_jobs.record_types.image import ImageRecords  # loads OpenCV, so only when needed

    return ImageRecords(options)


RECORD_TYPES: dict[str, Callable[[PreprocessOptions], RecordType]] = {
    "image": _image,
}

__all__ = ["RECORD_TYPES", "Prepared", "RecordType"]
