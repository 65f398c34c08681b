"""The split of every staged record, which planning decides and everything after it reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.corpus.names import SPLIT_NAMES
from beam_jobs.staging.sidecars import Sidecars

LEFT_OUT = -1
SPLITS_FILE = "splits.npy"  # in the folder of the plan


class Assignment:
    """One signed byte per staged record, in a memory-mapped file.

    Attributes:
        names: Names of the splits; a split is an index into this list.
        split_of: [records] int8; LEFT_OUT for records that are in no split.
    """

    def __init__(self, path: Path, sidecars: Sidecars) -> None:
        self._begins = sidecars.begins
        self.names: list[str] = []
        self.split_of: npt.NDArray[np.int8] = (
            np.lib.format.open_memmap(path, "w+", np.int8, (sidecars.records,))
            if sidecars.records
            else np.zeros(0, np.int8)
        )

    def unit(self, unit: int) -> npt.NDArray[np.int8]:
        """[rows] int8 of one unit: a writable view."""
        return self.split_of[self._begins[unit] : self._begins[unit + 1]]

    def units(self, sidecars: Sidecars) -> Iterator[tuple[int, pa.Table, IntArray]]:
        """(unit, its sidecar, [rows] int64 split of each row) of every unit."""
        for unit, table in sidecars:
            yield unit, table, self.unit(unit).astype(np.int64)

    def role(self, split: int) -> str:
        """By the name of a split: "train", "validation", "test", or an empty string."""
        return SPLIT_NAMES.get(self.names[split], "")

    @property
    def training(self) -> int:
        """The split to train on: "train", else the first that is not for evaluation."""
        # Without a "train" in "test=0.2,fit=0.8", "test" must not be the one that is balanced.
        roles = [self.role(split) for split in range(len(self.names))]
        return next((roles.index(role) for role in ("train", "") if role in roles), 0)
