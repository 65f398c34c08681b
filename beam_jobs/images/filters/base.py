"""What a cleaning step is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from beam_jobs.images.picture import Picture

# Looks at a picture, and raises Rejection(..., stage=FILTER) to leave it out.
Check = Callable[[Picture], None]


class CleaningStep(NamedTuple):
    """A rule that leaves pictures out.

    Attributes:
        option: The attribute that turns it on; None is off.
        make: From the option's value to a check; raises UsageError for a value that makes no sense.
    """

    option: str
    make: Callable[[Any], Check]
