"""Rows that the tasks of one round of planning have for the tasks of the next one.

Each source writes one object, with a slice for every destination. Once all are written, a table
says where the slices of each destination are, so it reads what is for it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import frame, unframe

_PLACE = np.dtype([("begin", "<i8"), ("size", "<i8")])


class Exchange:
    """Slices of bytes, from some sources to some destinations.

    Args:
        workspace: The build.
        name: A name that no other exchange of the build has.
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self._name = name

    def write(self, source: int, slices: Iterable[bytes]) -> bytes:
        """Writes the slices of a source, one for each destination, and returns their sizes.

        Writing them again has no effect on who reads them meanwhile.
        """
        sizes = []
        with self._workspace.write(self._of(source)) as file:
            for content in slices:
                sizes.append(file.write(frame(content)) if content else 0)
        return np.array(sizes, "<i8").tobytes()

    def finish(self, sizes: Sequence[bytes]) -> None:
        """Writes where the slices are, from the sizes that every source returned, in order."""
        by_source = np.stack([np.frombuffer(one, "<i8") for one in sizes])
        places = np.empty(by_source.T.shape, _PLACE)
        places["size"] = by_source.T
        places["begin"] = (np.cumsum(by_source, axis=1) - by_source).T
        with self._workspace.write(self._places()) as file:
            for destination in places:
                file.write(frame(destination.tobytes()))

    def read(self, destination: int, sources: int) -> Iterator[tuple[int, bytes]]:
        """The slices for a destination that are not empty, each with the number of its source.

        Args:
            destination: Its number.
            sources: How many sources there are.

        Raises:
            InputError: A slice is damaged.
        """
        size = len(frame(bytes(sources * _PLACE.itemsize)))
        places = np.frombuffer(self._slice(self._places(), destination * size, size), _PLACE)
        filled = np.flatnonzero(places["size"])
        remote = storage.local_path(self._workspace.plan) is None
        contents = storage.in_parallel(partial(self._slice_of, places), filled, remote=remote)
        yield from zip(filled.tolist(), contents, strict=True)

    def rows(
        self, destination: int, sources: int, dtype: npt.DTypeLike
    ) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """As `read`, of slices that are arrays."""
        for source, content in self.read(destination, sources):
            yield source, np.frombuffer(content, dtype)

    def _slice_of(self, places: npt.NDArray[np.void], source: int) -> bytes:
        begin, size = places[source].tolist()
        return self._slice(self._of(source), begin, size)

    def _slice(self, place: Place, begin: int, size: int) -> bytes:
        # Every build writes its exchanges again.
        with dropping_damaged(lambda: None):
            return unframe(storage.read_range(place, begin, size), f"{place} at {begin}")

    def _of(self, source: int) -> Place:
        return self._workspace.plan / f"{self._name}-{source:05d}.slices"

    def _places(self) -> Place:
        return self._workspace.plan / f"{self._name}.places"
