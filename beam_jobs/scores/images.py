"""The scores of images: of the pixels that are stored, before they are encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.measures import ImageMeasures, measure
from beam_jobs.options import ImageOptions
from beam_jobs.record_types.base import PIXELS, Prepared
from beam_jobs.scores.columns import ScoreColumns
from shard_format import Feature

_MOST_IMAGES = 32  # that are scored together
_MOST_BYTES = 1 << 25  # 32 MiB of their pixels, or one image if it is larger
_COLUMNS = {name: Feature(name, "float32") for name in ImageMeasures._fields}


class ImageScores(ScoreColumns):
    """The columns of --score of images.

    Args:
        options: The job.
    """

    def __init__(self, options: ImageOptions) -> None:
        super().__init__(options, _COLUMNS, {"measures": tuple(_COLUMNS)}, is_text=False)

    def added(self, images: Iterable[Prepared | Rejection]) -> Iterator[Prepared | Rejection]:
        """The images with their scores, in the same order."""
        waiting: list[Prepared | Rejection] = []
        size = 0
        for one in images:
            waiting.append(one)
            size += one.values[PIXELS].nbytes if isinstance(one, Prepared) else 0
            if size >= _MOST_BYTES or len(waiting) == _MOST_IMAGES:
                yield from self._scored(waiting)
                waiting, size = [], 0
        yield from self._scored(waiting)

    def _scored(self, images: list[Prepared | Rejection]) -> Iterator[Prepared | Rejection]:
        pixels = [one.values[PIXELS] for one in images if isinstance(one, Prepared)]
        measures = [measure(image) for image in pixels] if self.measures else []
        columns = [[getattr(one, name) for one in measures] for name in self.measures]
        rows = iter(self.rows(pixels, columns))
        for one in images:
            if isinstance(one, Rejection):
                yield one
            elif isinstance(row := next(rows), Rejection):
                yield row
            else:
                values = {name: value for name, value in one.values.items() if name != PIXELS}
                yield one._replace(values=values | self.named(row))
