"""Record types, by the name that the manifest stores.

To add one: write `beam_jobs/options/NAME.py` with its options, `beam_jobs/record_types/NAME.py` and
`reader/record_types/NAME.py`, and add a line to OPTIONS and to RECORD_TYPES of both packages.
"""

from collections.abc import Callable
from typing import Any

from beam_jobs.record_types.base import (
    PlannedChanges,
    Prepared,
    PreparedBatch,
    RecordType,
    SingleRecords,
)
from foundation.members import Members

# Each is created from the options of its own kind, see `beam_jobs.options.OPTIONS`.
RECORD_TYPES: Members[Callable[[Any], RecordType]] = Members(
    {
        "image": "beam_jobs.record_types.image:ImageRecords",
        "record": "beam_jobs.record_types.record:PythonRecords",
        "text": "beam_jobs.record_types.tokens:text_records",  # token ids with a tokenizer
    }
)

__all__ = [
    "RECORD_TYPES",
    "PlannedChanges",
    "Prepared",
    "PreparedBatch",
    "RecordType",
    "SingleRecords",
]
