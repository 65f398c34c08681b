"""Damaged records: errors that name them, and a count of the skipped ones.

A data set can only raise errors of TensorFlow, which makes text of what Python raises in its graph.
`raised_in_graph` turns that text into the exception again; loops over a data set do so through
`naming_damage`.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Iterator

from reader.opened_set import check_opened_sets
from shard_format import DamageError, SetReplacedError, ShardmillError, ShardSetError

_NAMED = 20  # skipped records; the others are counted alone, such as those of a missing shard

# What TensorFlow's own reader, and maps of an index, raise of files that were replaced. By name:
# the command line takes `DamageWarning` from here, also where TensorFlow is not needed.
_OF_FILES = frozenset({"NotFoundError", "DataLossError", "OutOfRangeError"})

_KINDS = {kind.__name__: kind for kind in (DamageError, SetReplacedError, ShardSetError)}
_RAISED = re.compile(rf"({'|'.join(_KINDS)}): (.*?)\nTraceback", re.DOTALL)


class DamageWarning(RuntimeWarning):
    """A damaged record was skipped, or a damaged copy was restored."""


def raised_in_graph(error: BaseException) -> ShardmillError | None:
    """What the reader raised inside a graph of TensorFlow; None for any other error."""
    match = _RAISED.search(str(error))
    return _KINDS[match[1]](match[2].strip()) if match else None


@contextlib.contextmanager
def naming_damage() -> Iterator[None]:
    """Raises what the reader raised inside a graph as the exception that it was.

    Raises:
        DamageError: A record is damaged.
        ShardSetError: A shard is missing, or cannot be read.
        SetReplacedError: The set was compacted or built again meanwhile.
    """
    try:
        yield
    except Exception as error:
        raised = raised_in_graph(error)
        if type(error).__name__ in _OF_FILES:
            check_opened_sets(str(error))
        if raised is None:
            raise
        raise raised from error


class SkippedRecords:
    """The damaged records that a stream has skipped, each counted once; warnings name the first.

    Threads of TensorFlow add to it, ahead of the batches that a program has taken.
    """

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int, problem: str) -> None:
        """Counts a record of the split.

        Args:
            number: Number of the record.
            problem: Names file, byte offset and record.
        """
        with self._lock:
            if number in self._numbers:
                return
            self._numbers.add(number)
            count = len(self._numbers)
        if count <= _NAMED:
            warnings.warn(f"Skipped a damaged record: {problem}", DamageWarning, stacklevel=2)
        elif count == _NAMED + 1:
            text = "More damaged records are skipped. 'shardmill verify' names all."
            warnings.warn(text, DamageWarning, stacklevel=2)
