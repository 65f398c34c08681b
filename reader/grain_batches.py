"""A stream as a Grain data set. The only module that needs Grain, which is no dependency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grain
from typing_extensions import override

from reader.batches import BatchSource


class GrainBatches(grain.IterDataset):
    """The batches of a stream as a grain.IterDataset of NumPy arrays.

        dataset = stream.grain()
        iterator = iter(dataset)
        state = iterator.get_state()

    It may be transformed further, and is what the Grain adapter of Keras takes. Threads of the
    stream read and decode, so that a prefetch of Grain is not needed.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: BatchSource) -> None:
        super().__init__()
        self._stream = stream

    def __len__(self) -> int:
        return len(self._stream)

    @override
    def __iter__(self) -> GrainIterator:
        return GrainIterator(self._stream)


class GrainIterator(grain.DatasetIterator):
    """An iterator over the batches of a stream, with a place of its own.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: BatchSource) -> None:
        super().__init__()
        self._stream, self._step = stream, stream.first_step
        self._batches: Iterator[Any] | None = None

    @override
    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._stream.arrays(self._step)
        batch = next(self._batches)
        self._step += 1
        return batch

    @override
    def get_state(self) -> dict[str, Any]:
        """The state of the stream behind the last batch; JSON holds it in less than 1 kB."""
        return self._stream.state_after(self._step - self._stream.first_step)

    @override
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes to a state.

        Raises:
            UsageError: It is no state of this stream.
        """
        self._step, self._batches = self._stream.step_of(state), None
