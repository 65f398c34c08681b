"""The reader as a data loader of DLIO, which imports it by name; see docs/dlio.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dlio_benchmark.common.enumerations import DataLoaderType, Shuffle
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader

import reader

_STREAMS = 8  # of each rank; all ranks must divide them


class ShardmillLoader(BaseDataLoader):  # type: ignore[misc]
    """Batches of images as they are stored, as DLIO's own loaders give them.

    Args:
        format_type: Format of the files.
        dataset_type: Training or validation.
        epoch: Number of the first epoch.
    """

    def __init__(self, format_type: Any, dataset_type: Any, epoch: int) -> None:
        super().__init__(format_type, dataset_type, epoch, DataLoaderType.TENSORFLOW)
        self._batches: Iterator[Any] = iter(())

    def read(self) -> None:
        """Opens the set; DLIO calls it once, before the first epoch."""
        given = self._args
        stream = reader.load(
            Path(given.data_folder) / "set",
            split=str(self.dataset_type),
            batch_size=self.batch_size * given.comm_size,
            worker=(given.my_rank, given.comm_size),
            streams=_STREAMS * given.comm_size,
            shuffle="off" if given.sample_shuffle is Shuffle.OFF else "window",
            seed=given.seed,
            threads=max(1, given.read_threads),
            decode=False,
            cache="off",
        )
        self._batches = iter(stream)

    def next(self) -> Iterator[Any]:
        """The batches of an epoch: as many as DLIO takes, which counts them itself."""
        super().next()
        # "yield from" would end the iterator with the epoch.
        for batch in self._batches:  # noqa: UP028
            yield batch

    def finalize(self) -> None:
        """Nothing: the batches of the next epoch are on their way."""
