"""A set as pages show it: which records fit a filter, and what there is to see of them."""

from __future__ import annotations

import dataclasses
import functools
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import simplejpeg

from beam_jobs.report.finished_set import FinishedSet, RecordLocation, locations_of
from beam_jobs.report.marks import marked
from beam_jobs.report.previews import Excerpt, small_image, text_reader
from beam_jobs.report.sections.duplicates import DuplicateCluster, read_clusters
from foundation.storage import Place
from foundation.wording import format_bytes
from reader.opened_set import OpenedSet
from reader.options import kind_of
from reader.record_types.objects import MASK
from shard_format import DamageError, ShardSetError
from shard_format.duplicates import read_duplicates
from shard_format.example import Values
from viewer.selection import RecordFilter, select
from viewer.values import MOST_PIXELS, TEXT_PART, in_words, shown_values

MOST_BYTES = 64 << 20  # 64 MiB: a longer record is not shown
_EXCERPT, _LINE = 320, 80  # characters
# What one page of a search reads, about a second; the next one goes on from there.
_SEARCHED_RECORDS, _SEARCHED_BYTES = 10_000, 64 << 20
_BEFORE_HIT = 80  # characters of a text before what was searched for
_KEPT_SELECTIONS = 4  # 8 bytes for each of their records
_MOST_MEMBERS = 48  # of a cluster
_QUALITY = 85


class Card(NamedTuple):
    """A record in a list of many.

    Attributes:
        split: Number of its split.
        row: Its row in the index of the split.
        record_id: Its id.
        labels: Names of its classes.
        excerpt: The beginning of its text, or of the part with what was searched for.
        hit: (begin, end) of what was searched for in the excerpt.
        problem: Why it cannot be read; empty if it can.
    """

    split: int
    row: int
    record_id: str
    labels: str
    excerpt: Excerpt | None = None
    hit: tuple[int, int] = (0, 0)
    problem: str = ""


class ViewedSet:
    """A set as it was when a generation was its newest one.

    Args:
        directory: The set.
        generation: Number of the generation; None for the newest.

    Attributes:
        finished: The files of the set.
        manifest: Its manifest.
        splits: Names of the splits.
        opened: Tells whether the set is still the one that was opened.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: The manifest was changed after the build.
    """

    def __init__(self, directory: Place, generation: int | None = None) -> None:
        self.finished = FinishedSet(directory, generation)
        self.manifest = self.finished.manifest
        self.splits = list(self.manifest.splits)
        self.opened = OpenedSet(directory, self.manifest.root_hash)
        self.select = functools.lru_cache(_KEPT_SELECTIONS)(
            functools.partial(select, self.finished)
        )
        self.clusters = functools.lru_cache(2)(self._clusters)
        # Threads answer requests; large images one after the other, so that memory is bounded.
        self._decoding = threading.Lock()

    @functools.cached_property
    def kind(self) -> str:
        """What records are to the reader: one of `reader.options.KINDS`."""
        return kind_of(self.manifest.schema)

    @property
    def searches_index(self) -> bool:
        """Whether a text is searched for in the index alone, not in the records."""
        return self.kind == "image"

    def indexed(self, wanted: RecordFilter) -> RecordFilter:
        """What the index alone can say about a filter."""
        return wanted if self.searches_index else dataclasses.replace(wanted, text="")

    def cards(self, places: Iterable[tuple[int, int]]) -> list[Card]:
        """Records, each with the beginning of its text if it has one."""
        return [self._card(*place) for place in places]

    def cards_of(self, ids: Iterable[str]) -> dict[str, Card]:
        """Those records of some ids that the set has."""
        places = self.find(ids)
        return dict(zip(places, self.cards(places.values()), strict=True))

    def search(self, wanted: RecordFilter, start: int, most: int) -> tuple[list[Card], int | None]:
        """The first records whose id or stored text has the text of a filter, in any case.

        Args:
            wanted: The filter.
            start: Position in the selection to begin at.
            most: Records to find.

        Returns:
            The records, and the position to go on from, if there are more.
        """
        selection = self.select(self.indexed(wanted))
        pattern = re.compile(re.escape(wanted.text), re.IGNORECASE)
        cards: list[Card] = []
        size, position = 0, start
        stop = min(start + _SEARCHED_RECORDS, len(selection))
        while position < stop and len(cards) < most and size < _SEARCHED_BYTES:
            ((split, row),) = selection.places(position, position + 1)
            position += 1
            location = self.location(split, row)
            size += location.length
            try:
                values = self.values(location)
                whole = self._whole_text(values) or self._in_lines(values, TEXT_PART)
            except (DamageError, ShardSetError):
                continue
            if match := pattern.search(whole.text):
                cards.append(self._hit(split, row, whole.text, match))
            elif pattern.search(location.record_id):
                cards.append(self._card(split, row))
        return cards, position if position < len(selection) else None

    def _hit(self, split: int, row: int, text: str, match: re.Match[str]) -> Card:
        begin = max(0, match.start() - _BEFORE_HIT)
        part = text[begin : begin + _EXCERPT]
        hit = (match.start() - begin, match.end() - begin)
        excerpt = Excerpt(part, begin + _EXCERPT < len(text))
        return self._card(split, row, read=False)._replace(excerpt=excerpt, hit=hit)

    def _card(self, split: int, row: int, *, read: bool = True) -> Card:
        location = self.location(split, row)
        labels = ", ".join(self.labels(split, row))
        card = Card(split, row, location.record_id, labels)
        if self.kind == "image" or not read:
            return card
        try:
            values = self.values(location)
            return card._replace(excerpt=self._excerpt(values) or self._in_lines(values, _LINE))
        except (DamageError, ShardSetError) as error:
            return card._replace(problem=str(error))

    def _in_lines(self, values: Mapping[str, Values], most: int) -> Excerpt:
        """The numbers and texts of a record without a text of its own, each in a line."""
        shown = shown_values(self.manifest.schema, values, 0)
        lines = [f"{one.name}: {one.text[:most]}" for one in shown if not one.images]
        return Excerpt("\n".join(lines), False)

    @functools.cached_property
    def _excerpt(self) -> Any:
        return text_reader(self.finished, _EXCERPT)

    @functools.cached_property
    def _whole_text(self) -> Any:
        return text_reader(self.finished, MOST_BYTES)

    def location(self, split: int, row: int) -> RecordLocation:
        """Where a record is stored.

        Raises:
            ShardSetError: There is no such record.
        """
        rows = self._index(split).slice(row, 1)
        if not len(rows):
            raise ShardSetError(f"There is no record {row:,} in split {self.splits[split]}.")
        return locations_of(self.splits[split], rows)[0]

    def index_row(self, split: int, row: int) -> list[tuple[str, str]]:
        """(name, value in words) of all columns of the index of a record."""
        (values,) = self._index(split).slice(row, 1).to_pylist()
        return [(name, in_words(value)) for name, value in values.items()]

    def _index(self, split: int) -> pa.Table:
        if split >= len(self.splits):
            raise ShardSetError(f"There is no split {split}, only {len(self.splits)} splits.")
        return self.finished.index(self.splits[split])

    def labels(self, split: int, row: int) -> list[str]:
        """The names of the classes of a record, by its main label."""
        index, names = self._index(split), self.finished.class_names
        numbers = index["labels" if "labels" in index.column_names else "label"][row].as_py()
        several = numbers if isinstance(numbers, list) else [numbers]
        return [in_words(one, names) for one in several if one is not None] if names else []

    def values(self, location: RecordLocation) -> dict[str, Values]:
        """The features of a record as they are stored.

        Raises:
            DamageError: It is damaged, or too long to be shown.
        """
        if location.length > MOST_BYTES:
            raise DamageError(
                f"The record takes {format_bytes(location.length)}, and one of more than "
                f"{format_bytes(MOST_BYTES)} is not shown. Read it with reader.random_access."
            )
        ((_, values),) = self.finished.read([location])
        return values

    def find(self, ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """(split, row) of some records by their ids; one pass over the ids of the index."""
        wanted = pa.array(list(ids), pa.string())
        places: dict[str, tuple[int, int]] = {}
        for split in range(len(self.splits)):
            begin = 0
            for batch in self._index(split).select(["record_id"]).to_batches():
                rows = np.flatnonzero(np.asarray(pc.is_in(batch["record_id"], wanted)))
                for row in rows.tolist():
                    places.setdefault(batch["record_id"][row].as_py(), (split, begin + row))
                begin += len(batch)
        return places

    def picture(self, split: int, row: int, name: str, number: int, side: int, marks: str) -> bytes:
        """An image of a record as a JPEG that fits into a square.

        Args:
            split: Number of the split.
            row: Row in its index.
            name: The feature.
            number: Which of its images.
            side: Side of the square in pixels.
            marks: What is drawn: "all" boxes and masks, "masks" alone, or "".

        Raises:
            Exception: It cannot be decoded.
        """
        feature, values = self.manifest.schema[name], self.values(self.location(split, row))
        with self._decoding:
            pixels = small_image(values, feature, number, side, MOST_PIXELS)
        if marks and feature is self.finished.image:
            drawn = {one: own for one, own in values.items() if marks == "all" or one == MASK}
            pixels = marked(pixels, drawn)
        encoded: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), _QUALITY)
        return encoded

    def kept_ids(self, record_id: str) -> list[str]:
        """The kept records of the clusters of duplicates that a record is in."""
        columns, kept = ["record_id", "kept_id"], list[str]()
        for _, batch in read_duplicates(self.finished.directory, self.manifest, columns):
            own = pc.or_(*(pc.equal(batch[name], record_id) for name in columns))
            kept += batch["kept_id"].filter(own).to_pylist()
        return list(dict.fromkeys(kept))

    def cluster(self, kept_ids: list[str]) -> list[DuplicateCluster]:
        """Clusters of duplicates with previews, by the ids of their kept records."""
        return read_clusters(self.finished, kept_ids, _MOST_MEMBERS) if kept_ids else []

    def _clusters(self, conflicting: bool) -> pa.Array:
        """[clusters] string: the ids of the kept records of all, or of those in conflict."""
        parts = [pa.array([], pa.string())]
        rows = read_duplicates(self.finished.directory, self.manifest, ["kept_id", "conflict"])
        for _, batch in rows:
            ids = batch["kept_id"].filter(batch["conflict"]) if conflicting else batch["kept_id"]
            parts.append(pc.unique(ids))
        return pc.unique(pa.chunked_array(parts))
