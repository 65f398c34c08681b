"""Pictures of every class, decoded once: means and thumbnails for the sections that show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from PIL import Image, ImageOps

from beam_jobs.images.decode import Pixels
from beam_jobs.report.choosing import MOST_CLASSES, choose
from beam_jobs.report.finished import FinishedSet, Place
from beam_jobs.report.markup import DataUri
from beam_jobs.report.pictures import decode_thumbnail, encode, shrunk
from shard_format import Feature
from shard_format.example import Values

MOST_PER_CLASS = 50
SHOWN_PER_CLASS = 6
# Large pictures get a smaller sample: decoding 100 megapixels takes one to two seconds.
_PIXEL_BUDGET = 100_000_000
_MEAN_SIDE = 64  # pixels: more than a mean of 50 pictures has to show
# The set was built with --max-pixels; this only bounds what a damaged header may ask for.
_MOST_PIXELS = 1 << 28


@dataclasses.dataclass
class ClassSample:
    """What was seen of one class.

    Attributes:
        name: Of the class.
        shown: (record id, picture) of the first few.
        records: How many pictures the mean is made of.
    """

    name: str
    shown: list[tuple[str, DataUri]] = dataclasses.field(default_factory=list)
    records: int = 0
    _sum: npt.NDArray[np.int64] = dataclasses.field(
        default_factory=lambda: np.zeros((_MEAN_SIDE, _MEAN_SIDE, 3), np.int64)
    )

    def add(self, record_id: str, pixels: Pixels) -> None:
        """Counts a picture in."""
        image = Image.fromarray(pixels)
        square = ImageOps.fit(image, (_MEAN_SIDE, _MEAN_SIDE), Image.Resampling.BILINEAR)
        self._sum += np.asarray(square)
        self.records += 1
        if len(self.shown) < SHOWN_PER_CLASS:
            self.shown.append((record_id, encode(pixels)))

    def mean(self) -> DataUri:
        """The mean of the central squares."""
        return encode((self._sum // self.records).astype(np.uint8))


def sample_classes(finished: FinishedSet) -> list[ClassSample]:
    """A sample of each of the most frequent classes, or of all records if there are no labels.

    Raises:
        DamageError: A record of the sample does not match its checksum.
    """
    if finished.image is None:
        return []
    names = finished.class_names
    labels = finished.commonest_classes(MOST_CLASSES) if names else [0]
    samples = {label: ClassSample(names[label] if names else "all records") for label in labels}
    wanted: dict[Place, list[int]] = {}
    for label, place in choose(finished, labels, _sample_size(finished, len(labels))):
        wanted.setdefault(place, []).append(label)
    for place, values in finished.read(wanted):
        try:
            pixels = thumbnail_of(place, values, finished.image)
        except Exception:  # Stored by other software, perhaps in a format that is not read here.
            continue
        for label in wanted[place]:
            samples[label].add(place.record_id, pixels)
    return [sample for sample in samples.values() if sample.records]


def thumbnail_of(place: Place, values: Mapping[str, Values], feature: Feature) -> Pixels:
    """The picture of a record, about as large as a thumbnail.

    Args:
        place: Where it lies, and its sides as the index has them.
        values: The decoded example.
        feature: Which one of its features is the picture.

    Raises:
        Exception: It cannot be decoded.
    """
    data = bytes(values[feature.name][0])  # type: ignore[arg-type]
    if feature.encoding != "raw":
        return decode_thumbnail(data, _MOST_PIXELS)
    height, width = (
        int(values[name][0]) if name in values else getattr(place, name)
        for name in ("height", "width")
    )
    pixels = np.frombuffer(data, np.uint8).reshape(height, width, 3)
    return np.asarray(shrunk(Image.fromarray(pixels)))


def _sample_size(finished: FinishedSet, num_classes: int) -> int:
    """Records of each class, such that decoding them all keeps to the budget."""
    for split in finished.manifest.splits:
        index = finished.index(split)
        if len(index) and {"width", "height"} <= set(index.column_names):
            first = index.slice(0, 1000)
            pixels = pc.mean(pc.multiply(first["width"].cast("int64"), first["height"])).as_py()
            fitting = _PIXEL_BUDGET // max(1, int(pixels or 0) * num_classes)
            return int(np.clip(fitting, SHOWN_PER_CLASS, MOST_PER_CLASS))
    return MOST_PER_CLASS
