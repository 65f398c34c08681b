"""Images as they are stored, for those who decode them elsewhere: on a GPU, or in a library."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from reader.options import ReadOptions
from reader.record_types.base import ElementSpec, joined
from reader.record_types.features import LabeledParser, find_labels
from reader.record_types.further import find_further
from reader.records.open_split import OpenSplit
from reader.windows import WindowRows
from shard_format import Feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedImageParser(LabeledParser):
    """Hands out images without decoding them.

    Output: (images, target), or the images alone where the set has no labels. Images are a list of
    [bytes] uint8 arrays. The target is [batch] int64, or [batch, num_classes] float32 of zeros and
    ones.

    Attributes:
        image: The feature with the image.
    """

    image: Feature

    @property
    @override
    def input_name(self) -> str:
        return self.image.name

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        return (None,)

    @property
    @override
    def element_dtype(self) -> str:
        return "uint8"

    @property
    @override
    def specs(self) -> Any:
        images = ElementSpec((None,), "uint8", lists=1, is_encoded=True)
        return self.element(images, self.further.specs, self.target_specs)

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        stored = [np.frombuffer(one, np.uint8) for one in rows.byte_values(self.image.name)]
        own = np.concatenate(stored)  # one piece of memory, and none of the window
        images = np.split(own, np.cumsum([len(one) for one in stored])[:-1])
        return (
            images,
            self.labels.targets(rows.columns),
            self.further.values(rows.columns, rows.where),
        )

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        stored, labels, further = zip(*parts, strict=True)
        return self.element(joined(stored, kept), joined(further, kept), joined(labels, kept))


def encoded_parser(split: OpenSplit, options: ReadOptions, image: Feature) -> EncodedImageParser:
    """Creates the parser of a split of images.

    Raises:
        UsageError: There is no such label or feature.
        ShardSetError: A record has no label.
    """
    labels = find_labels(split, options.label)
    further = find_further(split, options, (image.name, *labels.names))
    return EncodedImageParser(
        features=(image, *labels.features.values(), *further.stored),
        image=image,
        labels=labels,
        further=further,
    )
