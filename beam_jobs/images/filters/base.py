"""The interface of a filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from beam_jobs.images.decode.base import DecodedImage

# Raises Rejection(..., stage=FILTER) to leave an image out.
Check = Callable[[DecodedImage], None]


class Filter(NamedTuple):
    """A rule that leaves images out.

    Attributes:
        option: The option that turns it on; None is off.
        make: From the value of the option to a check; raises UsageError for an invalid value.
    """

    option: str
    make: Callable[[Any], Check]
