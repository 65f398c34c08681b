"""Ways to pack documents into sequences, by their name in --packing.

To add one: write `beam_jobs/text/packings/NAME.py` with a `Packing`, add a line here,
and its name to the option.
"""

from beam_jobs.text.packings.base import Packing, Piece
from beam_jobs.text.packings.best_fit import best_fit
from beam_jobs.text.packings.concat import concat

PACKINGS: dict[str, Packing] = {
    "concat": concat,
    "best-fit": best_fit,
}

__all__ = ["PACKINGS", "Packing", "Piece"]
