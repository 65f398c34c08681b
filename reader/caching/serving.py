"""Payloads that come from copies as soon as these are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from reader.payloads import Payloads

# To TensorFlow, a path with one of these is a pattern.
_PATTERN = ("\\", "*", "?", "[", "]")


class KeepingPayloads:
    """Payloads that keep something alive as long as anybody may read them, such as a lease.

    A data set keeps the functions that it was made of, and with them this object.

    Args:
        payloads: What is read.
        kept: What must not end before.
    """

    def __init__(self, payloads: Payloads, *kept: object) -> None:
        self._payloads, self._kept = payloads, kept

    def read(self, numbers: Any) -> Any:
        """See `reader.payloads.Payloads.read`."""
        return self._payloads.read(numbers)


class CopiedPayloads:
    """Payloads of a split that is read where it lies until all its copies are made.

    Which of the two is found out in the graph, window by window: a copy under its final name is
    whole. That takes a look at every copy, some microseconds each.

    Args:
        source: Reads the split where it lies.
        copied: Reads the copies, and what is not copied where it lies.
        paths: Of the copies.
    """

    def __init__(self, source: Payloads, copied: Payloads, paths: list[Path]) -> None:
        self._source, self._copied = source, copied
        self._paths = tf.constant([_literally(path) for path in paths])

    def read(self, numbers: Any) -> Any:
        """See `reader.payloads.Payloads.read`."""
        found = tf.size(tf.io.matching_files(self._paths))
        return tf.cond(
            found == tf.size(self._paths),
            lambda: self._copied.read(numbers),
            lambda: self._source.read(numbers),
        )


def _literally(path: Path) -> str:
    """A pattern that only this path matches."""
    return "".join(f"\\{char}" if char in _PATTERN else char for char in str(path))
