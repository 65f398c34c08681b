"""One pass over the shards, for what the index does not have of each record.

A shard is measured in one piece, by a worker process or a thread, and becomes a scratch file with a
row for each row of its index. A record that is damaged has no values, and stops nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.dedup.images.hash_format import HASH_BYTES, THUMBNAIL_BYTES
from beam_jobs.dedup.text.signatures import NEAR_FIELDS, near_columns
from beam_jobs.engine.local import num_threads
from beam_jobs.engine.processes import WorkerProcesses, should_use_processes, worker_processes
from beam_jobs.images.decode import DecodingOptions, Pixels, decode_image
from beam_jobs.images.measures import ImageMeasures, measure
from beam_jobs.images.perceptual_hash import perceptual_hashes, thumbnail_of
from beam_jobs.text.cleaning.base import Texts
from beam_jobs.text.cleaning.language import Language
from beam_jobs.work import Count, Work
from beam_jobs.workspace import read_table
from foundation import storage
from foundation.storage import Place
from shard_format import DamageError, Feature, Manifest, decode_example, load_manifest, unframe
from shard_format.example import Values
from shard_format.index_parts import open_shard_rows
from shard_format.shard_list import shard_numbers

_BLOCK_BYTES = 8 << 20  # 8 MiB of records that are measured together
_DECODING = DecodingOptions(max_pixels=1 << 28)  # bounds what a damaged header may ask for
_DAMAGED = pa.field("damaged", pa.bool_(), nullable=False)
_FINGERPRINT = pa.field("fingerprint", pa.binary(16), nullable=False)
_SIZES = (pa.field("stored_width", pa.int32()), pa.field("stored_height", pa.int32()))
_MEASURES = tuple(pa.field(name, pa.float32()) for name in ImageMeasures._fields)
LOOKS = (
    pa.field("perceptual_hash", pa.binary(HASH_BYTES), nullable=False),
    pa.field("thumbnail", pa.binary(THUMBNAIL_BYTES), nullable=False),
)


class WantedMeasures(NamedTuple):
    """What is measured.

    Attributes:
        image: The feature that holds the image of a record; None for none.
        text: Whether records have the feature "text".
        measures: Whether measures of images, or languages of texts, are wanted.
        near: Whether that is wanted which near duplicates are compared by.
    """

    image: Feature | None
    text: bool
    measures: bool
    near: bool

    @property
    def any(self) -> bool:
        """Whether shards have to be read at all."""
        return bool(self.image or self.text) and (self.measures or self.near)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the scratch files."""
        fields = [_DAMAGED, _FINGERPRINT]
        if self.image is not None:
            fields += [*_SIZES, *_MEASURES * self.measures, *LOOKS * self.near]
        else:
            fields += [*Language.reports * self.measures, *NEAR_FIELDS * self.near]
        return pa.schema(fields)


class ShardPlace(NamedTuple):
    """A shard of a set, by the number of its split and its own number there."""

    split: int
    shard: int

    def scratch_file(self, folder: Path) -> Path:
        """The file with its measures."""
        return folder / f"{self.split}-{self.shard}.arrow"


class MeasureShards(Work):
    """Measures the records of shards; output: the number of them.

    Args:
        directory: The set.
        generation: Number of its generation.
        wanted: What is measured.
        folder: Folder of the scratch files.
    """

    def __init__(
        self, directory: Place, generation: int, wanted: WantedMeasures, folder: Path
    ) -> None:
        self._directory, self._generation = directory, generation
        self._wanted, self._folder = wanted, folder
        self._manifest: Manifest | None = None

    @override
    def setup(self, count: Count) -> None:
        """Does nothing: there is no build to compare with."""

    @override
    def finish(self) -> None:
        """Does nothing: each scratch file is complete."""

    def process(self, place: ShardPlace) -> Iterator[int]:
        """Writes the measures of a shard."""
        # A large manifest is not sent along with each shard.
        manifest = self._manifest = self._manifest or load_manifest(
            self._directory, self._generation
        )
        split = list(manifest.splits)[place.split]
        rows = open_shard_rows(self._directory, manifest, split, place.shard)
        file = self._directory / manifest.splits[split].shards[place.shard].file
        with (
            pa.OSFile(str(place.scratch_file(self._folder)), "wb") as sink,
            pa.ipc.new_file(sink, self._wanted.schema) as writer,
        ):
            for block, records in _blocks(file, rows):
                writer.write_table(self._measured(records, block["fingerprint"]))
        yield len(rows)

    def _measured(
        self, records: Sequence[Mapping[str, Values] | None], fingerprints: pa.Array
    ) -> pa.Table:
        schema = self._wanted.schema
        if self._wanted.image is None:
            columns = _of_texts(records, self._wanted)
        else:
            rows = [_of_image(values, self._wanted.image, self._wanted) for values in records]
            columns = {name: [row.get(name) for row in rows] for name in schema.names}
            if self._wanted.near:
                thumbnails = [each or bytes(THUMBNAIL_BYTES) for each in columns["thumbnail"]]
                hashes = perceptual_hashes(thumbnails)
                columns |= {"thumbnail": thumbnails, "perceptual_hash": hashes}
        columns["fingerprint"] = fingerprints
        return pa.table({name: columns[name] for name in schema.names}, schema)


def _of_image(
    values: Mapping[str, Values] | None, image: Feature, wanted: WantedMeasures
) -> dict[str, Any]:
    """The row of a record with an image; without a size if it has none."""
    if values is None:
        return {"damaged": True}
    data = values.get(image.name)
    if not data or not data[0]:  # a kept column may have no value
        return {"damaged": False}
    try:
        pixels = _decoded(bytes(data[0]), values, image)  # type: ignore[arg-type]
    except Exception:  # a decoder may raise anything for bytes that somebody else wrote
        return {"damaged": True}
    height, width = pixels.shape[:2]
    row: dict[str, Any] = {"damaged": False, "stored_width": width, "stored_height": height}
    if wanted.measures:
        row |= measure(pixels)._asdict()
    if wanted.near:
        row["thumbnail"] = thumbnail_of(pixels)
    return row


def _decoded(data: bytes, values: Mapping[str, Values], image: Feature) -> Pixels:
    if image.encoding != "raw":
        return decode_image(data, _DECODING).pixels
    size = int(values["height"][0]), int(values["width"][0])
    return np.frombuffer(data, np.uint8).reshape(*size, 3)


def _of_texts(
    records: Sequence[Mapping[str, Values] | None], wanted: WantedMeasures
) -> dict[str, Any]:
    """Columns of records with a text."""
    texts, damaged = [], []
    for values in records:
        try:
            text = None if values is None else bytes(values["text"][0]).decode()  # type: ignore[arg-type]
        except (LookupError, TypeError, UnicodeDecodeError):
            text = None
        texts.append(text or "")
        damaged.append(text is None)
    column = pa.array(texts, pa.large_string())
    columns: dict[str, Any] = {"damaged": damaged}
    if wanted.measures:
        batch = pa.record_batch({"text": column, "is_html": [False] * len(column)})
        documents = Texts(batch, [None] * len(column))
        Language()(documents)
        columns |= documents.columns
    return columns | (near_columns(column) if wanted.near else {})


def _blocks(
    file: Place, rows: pa.Table
) -> Iterator[tuple[pa.Table, list[Mapping[str, Values] | None]]]:
    """Some neighbouring rows of a shard at a time, with their records."""
    lengths = np.asarray(rows["length"].to_numpy(), np.int64)
    blocks = (np.cumsum(lengths) - lengths) // _BLOCK_BYTES
    edges = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(rows)]
    records = _records(file, rows)
    for begin, end in itertools.pairwise(edges):
        yield rows.slice(begin, end - begin), list(itertools.islice(records, end - begin))


def _records(file: Place, rows: pa.Table) -> Iterator[Mapping[str, Values] | None]:
    """The features of each record; None for a damaged one."""
    places = zip(rows["offset"].to_pylist(), rows["length"].to_pylist(), strict=True)
    framed = storage.read_ranges(file, places)
    for _ in range(len(rows)):
        try:
            yield decode_example(unframe(next(framed), str(file)))
        # Behind an error of the file the generator has ended: all that follow are damaged too.
        except (DamageError, OSError, StopIteration):
            yield None


def measure_shards(
    directory: Place,
    manifest: Manifest,
    wanted: WantedMeasures,
    folder: Path,
    workers: int | None,
    on_progress: Callable[[int], None],
) -> list[pa.Table]:
    """Measures all records of a set.

    Args:
        directory: The set.
        manifest: Its manifest.
        wanted: What is measured.
        folder: Empty folder for the scratch files.
        workers: How many work at a time; None for one per usable core.
        on_progress: Called with the number of records that are done.

    Returns:
        The measures of each shard, mapped, in the order of the index; empty shards are left out.
    """
    places = [
        ShardPlace(number, shard)
        for number, split in enumerate(manifest.splits.values())
        for shard, count in enumerate(shard_numbers(split.shards, "records").tolist())
        if count
    ]
    work = MeasureShards(directory, manifest.newest, wanted, folder)
    size = sum(split.bytes for split in manifest.splits.values())
    is_remote = storage.local_path(directory) is None
    number = max(1, min(num_threads(workers, remote=is_remote), len(places)))
    in_processes = number > 1 and should_use_processes(wanted.text, size)
    record_type = manifest.schema.record_type
    with (
        worker_processes(record_type, number) if in_processes else nullcontext() as processes,
        ThreadPoolExecutor(number, thread_name_prefix="worker") as pool,
    ):
        done = 0
        for records in pool.map(lambda place: _done(work, place, processes), places):
            on_progress(done := done + records)
    return [read_table(place.scratch_file(folder)) for place in places]


def _done(work: MeasureShards, place: ShardPlace, processes: WorkerProcesses | None) -> int:
    """Has a free process measure a shard, or this thread as long as none is ready."""
    if processes is not None:
        with processes.one() as process:
            if process is not None:
                return int(process.do(work, place)[0])
    return next(work.process(place))
