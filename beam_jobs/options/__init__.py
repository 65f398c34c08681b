"""Every option of a preprocessing job, in one place.

The command line and `python -m beam_jobs` both make their flags from these fields, so that an
option exists once, with one default and one help text. `values` has the forms in which they are
written, `base` what every job has, one more file each what a record type adds.
"""

from beam_jobs.options.base import PreprocessOptions
from beam_jobs.options.image import ImageOptions
from beam_jobs.options.text import TextOptions

# By record type.
OPTIONS: dict[str, type[PreprocessOptions]] = {"image": ImageOptions, "text": TextOptions}

__all__ = ["OPTIONS", "ImageOptions", "PreprocessOptions", "TextOptions"]
