"""Ways to pack documents into sequences, by the name that `--packing` takes.

To add one: write `beam_jobs/text/tokenizing/packings/NAME.py` with a `Packing`, add a line here,
and its name to the option.
"""

from beam_jobs.text.tokenizing.packings.base import Packing, Piece
from beam_jobs.text.tokenizing.packings.best_fit import best_fit
from beam_jobs.text.tokenizing.packings.concat import concat

PACKINGS: dict[str, Packing] = {
    "concat": concat,
    "best-fit": best_fit,
}

__all__ = ["PACKINGS", "Packing", "Piece"]
