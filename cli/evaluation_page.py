"""An evaluation as a page."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.page_file import write_page

if TYPE_CHECKING:
    from foundation.storage import Place
    from inference.evaluation.scores import Evaluation

_MOST_COLUMNS = 40  # of a matrix; of more classes the most frequent mistakes are listed
_MOST_MISTAKES = 50


def write_evaluation(result: Evaluation, numbers: Sequence[tuple[str, str]], out: Place) -> None:
    """Writes the page; an existing file is replaced.

    Args:
        result: What was measured.
        numbers: (name, value) of its summary.
        out: The file.

    Raises:
        InputError: The file cannot be written.
    """
    many = len(result.classes) > _MOST_COLUMNS
    mistakes = _mistakes(result.matrix) if result.matrix is not None and many else None
    values = {"result": result, "numbers": numbers, "mistakes": mistakes}
    write_page("evaluation.html", values, out, "--page")


def _mistakes(matrix: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """(records, class, predicted class) of the most frequent mistakes."""
    wrong = (
        (count, true, predicted)
        for true, row in enumerate(matrix)
        for predicted, count in enumerate(row)
        if count and true != predicted
    )
    return heapq.nlargest(_MOST_MISTAKES, wrong)
