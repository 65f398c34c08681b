"""The first records of every class, read once for all sections that show them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from PIL import Image, ImageOps

from beam_jobs.report.finished_set import FinishedSet, RecordLocation
from beam_jobs.report.marks import marked
from beam_jobs.report.previews import (
    DataUri,
    Preview,
    Seen,
    as_preview,
    encode_thumbnail,
    read_previews,
)
from shard_format.example import Values

MOST_CLASSES = 40
MOST_IMAGES_PER_CLASS = 50  # that the mean is taken of
SHOWN_IMAGES_PER_CLASS = 6
_SHOWN_TEXTS_PER_CLASS = 2
_SHOWN_TEXTS_WITHOUT_CLASSES = 8
# Large images get a smaller sample: decoding 100 megapixels takes one to two seconds.
_PIXEL_BUDGET = 100_000_000
_MEAN_SIDE = 64  # pixels: a mean of 50 images has no finer detail


class SampledRecord(NamedTuple):
    """A record to show.

    Attributes:
        record_id: Its id.
        preview: Its preview, or None.
        kept: The values of its kept columns, by name; an empty list where it has none.
    """

    record_id: str
    preview: Preview | None
    kept: dict[str, Values]


@dataclasses.dataclass
class ClassSample:
    """The first records of one class.

    Attributes:
        name: The name of the class.
        most_shown: How many records to show.
        shown: The records to show.
        images: How many images the mean is taken of.
    """

    name: str
    most_shown: int
    shown: list[SampledRecord] = dataclasses.field(default_factory=list)
    images: int = 0
    _sum: npt.NDArray[np.int64] = dataclasses.field(
        default_factory=lambda: np.zeros((_MEAN_SIDE, _MEAN_SIDE, 3), np.int64)
    )

    def add(
        self, record_id: str, seen: Seen, values: Mapping[str, Values], kept: Sequence[str]
    ) -> None:
        """Adds the next record of the class.

        Args:
            record_id: Its id.
            seen: What there is to see of it.
            values: The record.
            kept: Names of its kept columns.
        """
        if isinstance(seen, np.ndarray):
            square = (_MEAN_SIDE, _MEAN_SIDE)
            fitted = ImageOps.fit(Image.fromarray(seen), square, Image.Resampling.BILINEAR)
            self._sum += np.asarray(fitted)
            self.images += 1
        if len(self.shown) < self.most_shown:
            if isinstance(seen, np.ndarray):
                with contextlib.suppress(Exception):  # written by other software
                    seen = marked(seen, values)
            own = {name: values.get(name, []) for name in kept}
            self.shown.append(SampledRecord(record_id, as_preview(seen), own))

    def mean_image(self) -> DataUri:
        """Returns the mean of the central squares."""
        return encode_thumbnail((self._sum // self.images).astype(np.uint8))


class ReportedSet(FinishedSet):
    """A finished set, with the samples that more than one section shows."""

    @functools.cached_property
    def class_samples(self) -> list[ClassSample]:
        """A sample of each of the most frequent classes, or of all records if there are no labels.

        Raises:
            DamageError: A record of the sample does not match its checksum.
        """
        names = self.class_names
        labels = self.commonest_classes(MOST_CLASSES) if names else [0]
        count, shown = self._sample_sizes(len(labels))
        samples = {
            label: ClassSample(names[label] if names else "all records", shown) for label in labels
        }
        chosen: dict[RecordLocation, list[int]] = {}
        for label, location in self.first_records(labels, count):
            chosen.setdefault(location, []).append(label)
        for location, values, seen in read_previews(self, chosen):
            if seen is None and not self.holds_text:
                continue
            kept = [feature.name for feature in self.kept_columns]
            for label in chosen[location]:
                samples[label].add(location.record_id, seen, values, kept)
        return [sample for sample in samples.values() if sample.shown]

    def _sample_sizes(self, num_classes: int) -> tuple[int, int]:
        """(records of each class to read, records of each class to show)."""
        if self.holds_text:
            named = bool(self.class_names)
            count = _SHOWN_TEXTS_PER_CLASS if named else _SHOWN_TEXTS_WITHOUT_CLASSES
            return count, count
        for split in self.manifest.splits:
            index = self.index(split)
            if len(index) and {"width", "height"} <= set(index.column_names):
                first = index.slice(0, 1000)
                pixels = pc.mean(pc.multiply(first["width"].cast("int64"), first["height"])).as_py()
                fitting = _PIXEL_BUDGET // max(1, int(pixels or 0) * num_classes)
                count = int(np.clip(fitting, SHOWN_IMAGES_PER_CLASS, MOST_IMAGES_PER_CLASS))
                return count, SHOWN_IMAGES_PER_CLASS
        return MOST_IMAGES_PER_CLASS, SHOWN_IMAGES_PER_CLASS
