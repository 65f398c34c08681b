"""Bounding boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from shard_format.features.base import FeatureKind, Json, described, dimensions, shown
from shard_format.features.tensor import FLOAT32


class BBox(FeatureKind):
    """A box: (ymin, xmin, ymax, xmax) as shares of the height and the width of the image."""

    storage = "float_list"
    value_shape = (4,)
    dtype = "float32"

    @override
    def checked(self, value: Any, shape: Sequence[int]) -> npt.NDArray[Any]:
        boxes: npt.NDArray[Any] = np.asarray(FLOAT32.checked(value, shape))
        inside = (boxes >= 0) & (boxes <= 1)  # NaN is not
        ordered = boxes[..., :2] <= boxes[..., 2:]
        wrong = ~(inside.all(axis=-1) & ordered.all(axis=-1))
        if wrong.any():
            box = boxes.reshape(-1, 4)[wrong.reshape(-1)][0].tolist()
            raise ValueError(
                f"the box {shown(box)} is not ymin <= ymax, xmin <= xmax in shares of the image, "
                "which are in [0, 1]"
            )
        return boxes

    @override
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        # In this format of boxes, which is the first, and the default.
        content = {"shape": dimensions((4,)), "dtype": "float32", "bboxFormat": "REL_YXYX"}
        return described("bounding_boxes", "BBoxFeature", boundingBox=content)
