"""Batches as their numbers: what the chief iterates over in place of a data set."""

from __future__ import annotations

from typing import Any


class Numbers:
    """Batches of a stream that have only numbers here: whoever computes a step makes them.

    Args:
        stream: A `reader.Stream`.

    Attributes:
        stream: Stream, as given.
        place: Number of the next batch, counted over all epochs.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.place = stream.first_step

    def __iter__(self) -> Numbers:
        return Numbers(self.stream)

    def __next__(self) -> int:
        self.place += 1
        return self.place - 1
