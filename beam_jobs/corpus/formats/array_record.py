"""ArrayRecord files of tf.train.Example, through the library of that format."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from typing_extensions import override

from beam_jobs.corpus.formats.base import FilePart, FoundRecord, FoundRejection, Split
from beam_jobs.corpus.formats.columnar import first_line
from beam_jobs.corpus.formats.tfrecord import TfRecord
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import place_of
from beam_jobs.corpus.streams import ByteStream
from foundation.extras import naming_extras
from foundation.storage import local_path

_BATCH = 64  # records that are read at a time
_COPY_BYTES = 1 << 20


class ArrayRecord(TfRecord):
    """Examples in an ArrayRecord file, which is not split."""

    @override
    def find(self, part: FilePart) -> Iterator[FoundRecord | FoundRejection]:
        with _local_file(part) as path:
            try:
                reader = _open(path)
                number = reader.num_records()
            except RuntimeError as error:
                data = self.readable_bytes(part)
                raise Rejection("damaged-file", first_line(error), data=data) from None
            try:
                for start in range(0, number, _BATCH):
                    yield from self._batch(reader, start, min(start + _BATCH, number), part)
            finally:
                with suppress(RuntimeError):  # the same damage again
                    reader.close()

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        return [Split(0, -1, 0, size)]

    def _batch(
        self, reader: Any, start: int, end: int, part: FilePart
    ) -> Iterator[FoundRecord | FoundRejection]:
        """The records [start, end); one by one where one of them is damaged."""
        try:
            examples = reader.read(start, end)
        except RuntimeError as error:
            if end - start == 1:
                rejection = Rejection("damaged-record", first_line(error), data=b"")
                yield FoundRejection(self.place(start), rejection, {})
                return
            for number in range(start, end):
                yield from self._batch(reader, number, number + 1, part)
            return
        for number, example in enumerate(examples, start):
            if len(example) > self.limit:
                yield self.too_large(number, len(example))
            else:
                yield self.found(number, example, part)


def _open(path: str) -> Any:
    with naming_extras():
        from array_record.python.array_record_module import ArrayRecordReader

    return ArrayRecordReader(path)


@contextmanager
def _local_file(part: FilePart) -> Iterator[str]:
    """The path of a part as a file on this disk, which the library asks for."""
    path = local_path(place_of(part.path))
    if path is not None and not part.codec and not part.locator.container:
        yield os.fspath(path)
        return
    try:
        with part.open() as file, part.scratch.open("wb") as sink:
            shutil.copyfileobj(file, sink, _COPY_BYTES)
        yield str(part.scratch)
    finally:
        part.scratch.unlink(missing_ok=True)
