"""What models say of records: of those that they were not trained on, and of those they were."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Predictions(NamedTuple):
    """Probabilities of the classes of a set.

    Attributes:
        label: Name of the feature that was predicted, a class_label.
        splits: By the name of a split, [records, classes] float32 in the order of the index and of
            the classes of the set; NaN in the row of a record that could not be read. They may be
            mapped from files.
        forgotten: By the name of a split, [records] how often a model that was trained on it
            unlearned a record; -1 for a record that could not be read.
    """

    label: str
    splits: Mapping[str, npt.NDArray[np.float32]]
    forgotten: Mapping[str, npt.NDArray[np.int64]] = MappingProxyType({})
