"""TFRecord files of tf.train.Example with documents in a feature."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import (
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
    place_at,
)
from beam_jobs.documents.decoding import decode_value
from beam_jobs.documents.fields import LOOKED_AT, Fields
from beam_jobs.options import TextOptions
from beam_jobs.sources.base import MAX_RECORD_BYTES
from beam_jobs.sources.compression import read_exactly
from beam_jobs.sources.frames import is_frame
from beam_jobs.sources.streams import Bytes
from shard_format import DamageError, decode_example, masked_crc
from shard_format.tfrecord import FOOTER_BYTES, HEADER_BYTES

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_BLOCK_BYTES = 1 << 20  # 1 MiB of what is gone over at a time


class TfRecord(Format):
    """See Format; the bytes of a record are its serialized Example."""

    has_columns = True

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._fields = Fields(options)

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        with part.open() as file:
            number = 0
            while header := read_exactly(file, HEADER_BYTES):
                place = place_at(number)
                if not is_frame(header):
                    yield _end(place, header, file, "there is no record's length and checksum")
                    return
                size = int(_HEADER.unpack(header)[0])
                if size > MAX_RECORD_BYTES:
                    if _skipped(file, size + FOOTER_BYTES) < size + FOOTER_BYTES:
                        yield _end(place, header, file, f"it ends in a record of {size} bytes")
                        return
                    detail = f"the record has {size} bytes, more than {MAX_RECORD_BYTES}"
                    yield RefusedDocument(place, Rejection("file-too-large", detail, stage="read"))
                    number += 1
                    continue
                framed = read_exactly(file, size + FOOTER_BYTES)
                if len(framed) < size + FOOTER_BYTES:
                    detail = f"it ends in a record of {size} bytes"
                    yield _end(place, framed[:size], file, detail)
                    return
                yield _checked(place, framed[:-FOOTER_BYTES], framed[-FOOTER_BYTES:])
                number += 1
            if file.damage is not None:
                yield _end(place_at(number), None, file, "")

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        try:
            features = decode_example(found.data)
        except DamageError:
            detail = f"its {len(found.data)} bytes are no Example"
            raise Rejection("not-an-example", detail) from None
        row = self._row(features)
        return self._fields.document(row, part, class_names=part.class_names)

    def columns(self, part: Part) -> list[dict[str, Any]]:
        """See Format."""
        rows = []
        for _, one in zip(range(LOOKED_AT), self.find(part), strict=False):
            if isinstance(one, Found):
                try:
                    rows.append(self._row(decode_example(one.data)))
                except (DamageError, Rejection):
                    continue
        return rows

    def _row(self, features: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The features as values; what is to be text as that.

        Raises:
            Rejection: The text is no UTF-8.
        """
        row: dict[str, Any] = {
            name: values[0] if len(values) == 1 else list(values) or None
            for name, values in features.items()
        }
        for name in self._fields.text_columns:
            if isinstance(row.get(name), bytes):
                row[name] = decode_value(row[name])
        return row


def _checked(place: str, payload: bytes, footer: bytes) -> Found | RefusedDocument:
    if masked_crc(payload) == _CRC.unpack(footer)[0]:
        return Found(place, payload)
    detail = f"its {len(payload)} bytes do not match their checksum"
    return RefusedDocument(place, Rejection("damaged-record", detail, stage="read", data=payload))


def _end(place: str, data: bytes | None, file: Bytes, detail: str) -> RefusedDocument:
    """The rest of a file behind damage."""
    if file.damage is not None:
        return RefusedDocument(place, Rejection(*_said(file.damage), stage="read", data=data))
    rest = (data or b"") + file.read(MAX_RECORD_BYTES)
    return RefusedDocument(place, Rejection("damaged-file", detail, stage="read", data=rest))


def _said(damage: Rejection) -> tuple[str, str]:
    return damage.reason, damage.detail


def _skipped(file: Bytes, size: int) -> int:
    left = size
    while left and (data := file.read(min(left, _BLOCK_BYTES))):
        left -= len(data)
    return size - left
