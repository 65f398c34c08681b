"""Record readers that join others: what is damaged, what is being copied, and what is leased."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from reader.cache.checked_records import CheckedRecordReader
from reader.records.readers import FileRecordReader, RecordReader


class ContainedRecordReader:
    """Reads local files by byte ranges in Python, and with TensorFlow in another process.

    The first is faster, and names damage or skips it.

    Args:
        files: Reads with TensorFlow.
        checked: Reads the same records.

    Attributes:
        portable: Reads as `files` does, also in another process; of damage the file is not named.
    """

    def __init__(self, files: FileRecordReader, checked: CheckedRecordReader) -> None:
        self.portable, self._checked = files, checked

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        return self._checked.read(numbers)

    def read_skipping(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read_skipping`."""
        return self._checked.read_skipping(numbers)


# To TensorFlow, a path with one of these is a pattern.
_PATTERN = ("\\", "*", "?", "[", "]")


class LeasedRecords:
    """Reads records, and keeps something alive as long as anybody may read them, such as a lease.

    A data set holds its functions, and with them this object.

    Args:
        record_reader: Reads the records.
        kept: Must not end before.
    """

    def __init__(self, record_reader: RecordReader, *kept: object) -> None:
        self._payloads, self._kept = record_reader, kept

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        return self._payloads.read(numbers)

    def read_skipping(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read_skipping`."""
        return self._payloads.read_skipping(numbers)

    @property
    def portable(self) -> RecordReader:
        """See `portable`."""
        return LeasedRecords(portable(self._payloads), *self._kept)


def portable(record_reader: RecordReader) -> RecordReader:
    """What reads the same records in a graph that is sent to another process, if anything does."""
    return getattr(record_reader, "portable", record_reader)


class CopiedRecordReader:
    """Reads a split from its source until all its copies are made.

    Which of the two is found out in the graph, window by window: a copy under its final name is
    whole. That takes a look at every copy, some microseconds each.

    Args:
        source: Reads the split from its source.
        copied: Reads the copies, and what is not copied from its source.
        paths: Of the copies.
    """

    def __init__(self, source: RecordReader, copied: RecordReader, paths: list[Path]) -> None:
        self._source, self._copied = source, copied
        self._paths = tf.constant([_literally(path) for path in paths])

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        return tf.cond(
            self._is_copied(),
            lambda: self._copied.read(numbers),
            lambda: self._source.read(numbers),
        )

    def read_skipping(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read_skipping`."""
        return tf.cond(
            self._is_copied(),
            lambda: self._copied.read_skipping(numbers),
            lambda: self._source.read_skipping(numbers),
        )

    def _is_copied(self) -> Any:
        return tf.size(tf.io.matching_files(self._paths)) == tf.size(self._paths)


def _literally(path: Path) -> str:
    """A pattern that only this path matches."""
    return "".join(f"\\{char}" if char in _PATTERN else char for char in str(path))
