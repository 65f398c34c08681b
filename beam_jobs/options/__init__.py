"""Every option of a preprocessing job, declared once.

`values` has the forms in which options are written, `base` the options of every job, `image` and
`text` those of one record type. The flags of `shardmill preprocess`, the checks, and
docs/options.md are derived from these declarations (`foundation/options.py`).
"""

from beam_jobs.options.base import PreprocessOptions
from beam_jobs.options.image import ImageOptions
from beam_jobs.options.records import RecordOptions
from beam_jobs.options.text import TextOptions

# By record type.
OPTIONS: dict[str, type[PreprocessOptions]] = {
    "image": ImageOptions,
    "record": RecordOptions,
    "text": TextOptions,
}

__all__ = ["OPTIONS", "ImageOptions", "PreprocessOptions", "RecordOptions", "TextOptions"]
