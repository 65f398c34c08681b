"""TFRecord files of tf.train.Example: of TFDS, of shardmill itself, of anyone."""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from beam_jobs.corpus.formats.base import (
    INSPECTED_RECORDS,
    FilePart,
    Format,
    FoundRecord,
    FoundRejection,
    Split,
)
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.streams import ByteStream, SequentialReader
from shard_format import DamageError, decode_example, masked_crc
from shard_format.tfrecord import FOOTER_BYTES, HEADER_BYTES

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_SPLIT_BYTES = 32 << 20  # 32 MiB, about a unit


def is_frame(header: bytes) -> bool:
    """Whether these 12 bytes are the length of a record and its checksum."""
    if len(header) < HEADER_BYTES:
        return False
    return masked_crc(header[:8]) == int(_HEADER.unpack_from(header)[1])


class TfRecord(Format):
    """Examples in a TFRecord file; `seek` of a split is the first byte of its first record."""

    @override
    def find(self, part: FilePart) -> Iterator[FoundRecord | FoundRejection]:
        with part.open() as file:
            self._check_begin(file, part)
            reader = SequentialReader(file, part.locator.seek)
            number, end = part.locator.start, part.locator.end
            try:
                while (end < 0 or number < end) and (header := reader.take(HEADER_BYTES)):
                    if not is_frame(header):
                        why = "there is no record's length and checksum"
                        yield self._damaged(number, why, header + file.read(self.limit))
                        return
                    yield self._record(reader, number, header, part)
                    number += 1
            except Rejection as damage:  # of the stream
                yield FoundRejection(self.place(number), damage.with_data(b""), {})

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        fields = found.context
        if self.extractor.keeps_example:
            fields = _fields(_decoded(found.data))
            payload = self.extractor.from_fields(fields)
        else:
            payload = self.extractor.from_bytes(found.data)
        annotations = self.annotations.read(fields, part.annotations, part.names().class_names)
        return RawRecord("", found.data, payload, annotations, "utf-8")

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        # Headers alone are read, from one record to the next.
        splits: list[Split] = []
        reader = SequentialReader(file)
        start = number = seek = 0
        try:
            while is_frame(header := reader.take(HEADER_BYTES)):
                length = int(_HEADER.unpack(header)[0]) + FOOTER_BYTES
                if reader.skip(length) < length:
                    break
                number += 1
                if reader.position - seek >= _SPLIT_BYTES:
                    splits.append(Split(start, number, seek, reader.position - seek))
                    start, seek = number, reader.position
        except Rejection:
            pass  # reading says what is wrong
        if size > seek or not splits:
            splits.append(Split(start, -1, seek, size - seek))
        else:
            splits[-1] = splits[-1]._replace(end=-1)
        return splits

    @override
    def inspect(self, part: FilePart) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for one in itertools.islice(self.find(part), INSPECTED_RECORDS):
            if isinstance(one, FoundRecord) and self.extractor.keeps_example:
                with contextlib.suppress(Rejection):
                    rows.append(_fields(_decoded(one.data)))
            elif one.context:
                rows.append(one.context)
        return rows

    def _check_begin(self, file: ByteStream, part: FilePart) -> None:
        """Checks that a file begins with a record.

        Raises:
            Rejection: It does not.
        """
        head = file.head(HEADER_BYTES)
        if head and not is_frame(head) and file.damage is None:
            after = f"after {part.codec} " if part.codec else ""
            detail = f"{after}the file does not begin with a record's length and checksum"
            raise Rejection("not-a-tfrecord", detail, data=self.readable_bytes(part))

    def _record(
        self, reader: SequentialReader, number: int, header: bytes, part: FilePart
    ) -> FoundRecord | FoundRejection:
        """The record after a header.

        Raises:
            Rejection: The stream is damaged in it.
        """
        size = int(_HEADER.unpack(header)[0])
        cut_off = f"the file ends in a record of {size} bytes"
        if size > self.limit:
            if reader.skip(size + FOOTER_BYTES) < size + FOOTER_BYTES:
                return self._damaged(number, cut_off, b"")
            return self.too_large(number, size)
        framed = reader.take(size + FOOTER_BYTES)
        if len(framed) < size + FOOTER_BYTES:
            return self._damaged(number, cut_off, header + framed)
        example, footer = framed[:-FOOTER_BYTES], framed[-FOOTER_BYTES:]
        if masked_crc(example) != _CRC.unpack(footer)[0]:
            detail = f"its {size} bytes do not match their checksum"
            rejection = Rejection("damaged-record", detail, data=example)
            return FoundRejection(self.place(number), rejection, {})
        return self.found(number, example, part)

    def found(self, number: int, example: bytes, part: FilePart) -> FoundRecord | FoundRejection:
        """The record in an Example that is whole."""
        fields: dict[str, Any] = {}
        try:
            if self.extractor.keeps_example:
                return FoundRecord(self.place(number), example)
            features = _decoded(example)
            fields = _fields(features)
            data = self.extractor.example_original(features, example, part.names())
            return FoundRecord(self.place(number), data, fields)
        except Rejection as rejection:
            kept = example if rejection.data is None else rejection.data
            return FoundRejection(self.place(number), rejection.with_data(kept), fields)

    def _damaged(self, number: int, why: str, data: bytes) -> FoundRejection:
        """The rest of a file after damage."""
        return FoundRejection(self.place(number), Rejection("damaged-file", why, data=data), {})


def _fields(features: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The features of an Example as fields: one value, a list of several, or None."""
    return {
        name: values[0] if len(values) == 1 else list(values) or None
        for name, values in features.items()
    }


def _decoded(example: bytes) -> Any:
    """The features of an Example.

    Raises:
        Rejection: It is not one.
    """
    try:
        return decode_example(example)
    except DamageError:
        detail = f"its {len(example)} bytes are not an Example"
        raise Rejection("not-an-example", detail) from None
