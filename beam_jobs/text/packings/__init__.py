"""Ways to pack documents into sequences, by the value of --packing.

To add one: write `beam_jobs/text/packings/NAME.py` with a `Packing` (see `base`), and add a line
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.members import Members

if TYPE_CHECKING:
    from beam_jobs.text.packings.base import Packing

PACKINGS: Members[Packing] = Members(
    {
        "concat": "beam_jobs.text.packings.concat:concat",
        "best-fit": "beam_jobs.text.packings.best_fit:best_fit",
    }
)
