"""TFRecord files of tf.train.Example: of TFDS, of shardmill itself, of anyone."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import ImageOptions
from beam_jobs.sources.base import MAX_RECORD_BYTES, Item, Raw, ReadRecord, Source, read_whole_file
from beam_jobs.sources.beside import Names, ShardSets, describes, known_names
from beam_jobs.sources.cells import said_by, wanted_columns
from beam_jobs.sources.containers import find_files, split_by_folder
from beam_jobs.sources.forwards import open_forwards
from beam_jobs.sources.frames import (
    Features,
    described,
    first_examples,
    next_size,
    tfrecord_codec,
)
from beam_jobs.sources.ranges import Place, Ranges, open_ranges
from shard_format import DamageError, InputError, decode_example, masked_crc
from shard_format.tfrecord import FOOTER_BYTES, HEADER_BYTES

_CRC = struct.Struct("<I")
_DEFAULT_IMAGE, _ALSO_TRIED = "image", "image/encoded"
_NAMES = "@"  # in a locator, before what the class names hash to


class TfRecord(Source):
    """Every record of every TFRecord file below the roots, or of a shard set with a manifest."""

    options: ImageOptions

    def __init__(self, options: ImageOptions) -> None:
        super().__init__(options)
        self._names_of: dict[bytes, Names] = {}

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        for number, file in enumerate(self._files(roots, on_ignored), start=1):
            split, refused = split_by_folder(self.options, file.record_id)
            refused = file.refused or refused
            if refused:
                yield file._replace(refused=refused)
                continue
            try:
                codec = tfrecord_codec(file.path)
                self._check_features(file, codec)
                yield from self._file_items(file._replace(split=split), codec, number)
            except Rejection as refusal:
                yield file._replace(refused=str(refusal))
            except OSError as error:
                yield file._replace(refused=f"unreadable: {error.strerror}")

    def _files(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """The files with records: of a shard set its shards, of other folders all but notes."""
        sets = ShardSets(roots)
        for item in find_files(roots, on_ignored):
            shards = sets.around(os.path.dirname(item.path))
            if shards is not None:
                # Its index and its quarantine are no records of it.
                if item.path in shards:
                    yield item
            elif describes(item.path):
                on_ignored(item.record_id)
            else:
                yield item

    def _file_items(self, file: Item, codec: str, number: int) -> Iterator[Item]:
        names = self._names(file)
        block = number if codec else 0
        with open_forwards(file.path, codec) as source:
            for count in itertools.count():
                start = source.position
                try:
                    size = next_size(source)
                except Rejection as damage:
                    yield _damaged(file, codec, start, damage.detail, block)
                    return
                if size is None:
                    return
                place = Place(codec, start + HEADER_BYTES, size + FOOTER_BYTES)
                yield file._replace(
                    record_id=f"{file.record_id}/{count:09d}",
                    size=size,
                    locator=f"{place}{_NAMES}{names.digest}",
                    block=block,
                )

    def _check_features(self, file: Item, codec: str) -> None:
        """Returns if some of the first records have the features that the job needs.

        Raises:
            InputError: None has.
        """
        wanted = {"--image-column": self.options.image_column}
        flags = {"label": "--label-column", "group": "--group-by", "split": "--split column:"}
        wanted |= {flags[use]: column for use, column in wanted_columns(self.options).items()}
        found = list(first_examples(file, codec))
        for flag, name in wanted.items():
            tried = self._image_names() if flag == "--image-column" else (name,)
            if found and not any(one in features for features in found for one in tried):
                raise InputError(
                    f"{flag} must name a feature, got {name!r} and {file.record_id} has "
                    f"{described(found)}. Name one of these"
                    f"{' or say --no-labels' if flag == '--label-column' else ''}."
                )

    def _names(self, item: Item) -> Names:
        """The class names for the records of a file; read once per folder."""
        folder = os.path.dirname(item.path)
        if folder not in self._names_of:
            self._names_of[folder] = known_names(folder, self.options.label_column)
        return self._names_of[folder]

    def _image_names(self) -> tuple[str, ...]:
        column = self.options.image_column
        return (column, _ALSO_TRIED) if column == _DEFAULT_IMAGE else (column,)

    @contextmanager
    def open(self, items: Sequence[Item], scratch: Path) -> Iterator[ReadRecord]:
        """See Source."""
        located = [item for item in items if item.locator]
        with open_ranges(((item.path, _place(item)) for item in located), scratch) as ranges:
            yield lambda item: self._read(item, ranges)

    def _read(self, item: Item, ranges: Ranges) -> Raw:
        if not item.locator:
            return read_whole_file(item)
        place = _place(item)
        if item.refused:
            return Raw(ranges.read(item.path, place, cut=True))
        framed = ranges.read(item.path, place)
        payload = framed[:-FOOTER_BYTES]
        if masked_crc(payload) != _CRC.unpack_from(framed, len(payload))[0]:
            detail = f"its {len(payload)} bytes do not match their checksum"
            raise Rejection("damaged-record", detail, data=payload)
        try:
            return self._parsed(item, payload)
        except Rejection as refusal:
            data = payload if refusal.data is None else refusal.data
            raise Rejection(refusal.reason, refusal.detail, data=data) from None

    def _parsed(self, item: Item, payload: bytes) -> Raw:
        try:
            features = decode_example(payload)
        except DamageError:
            raise Rejection("not-an-example", f"its {len(payload)} bytes are no Example") from None
        name = next((name for name in self._image_names() if features.get(name)), None)
        if name is None:
            detail = f"{self.options.image_column!r} is none of {described([features])}"
            raise Rejection("no-image", detail)
        picture, *more = features[name]
        if more or not isinstance(picture, bytes):
            kind = type(picture).__name__
            detail = f"{name!r} must hold one value of bytes, it has {1 + len(more)} of {kind}"
            raise Rejection("no-image", detail)
        if name in self._names(item).raw:
            picture = _as_ppm(picture, features)
        fields = {
            column: values[0] if len(values) == 1 else list(values) or None
            for column, values in features.items()
            if column in wanted_columns(self.options).values()
        }
        try:
            said = said_by(fields, self._names(item).names, self.options)
        except Rejection as refusal:
            raise Rejection(refusal.reason, refusal.detail, data=picture) from None
        return Raw(picture, said.label, said.group, said.split or item.split)


def _as_ppm(pixels: bytes, features: Features) -> bytes:
    """The pixels of a shard set of --encoding raw, with a header that tells their size.

    Raises:
        Rejection: They are not as many as their size says.
    """
    height, width = (features.get(side) or [0] for side in ("height", "width"))
    if len(pixels) != 3 * height[0] * width[0]:
        detail = f"{len(pixels)} bytes are no {width[0]} x {height[0]} pixels of 3 bytes"
        raise Rejection("damaged-record", detail)
    return b"P6 %d %d 255\n" % (width[0], height[0]) + pixels


def _damaged(file: Item, codec: str, start: int, detail: str, block: int) -> Item:
    """A refused record for the file itself; its bytes are all from the damage on."""
    # How much a compressed file still gives is seen when it is read.
    left = MAX_RECORD_BYTES if codec else max(0, file.size - start)
    refused = f"damaged-file: from byte {start} on: {detail}"
    place = Place(codec, start, left)
    return file._replace(size=0, refused=refused, locator=str(place), block=block)


def _place(item: Item) -> Place:
    return Place.parse(item.locator.partition(_NAMES)[0])
