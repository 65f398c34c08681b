"""Records that a program of the user reads: its items are listed, and read one after another."""

from __future__ import annotations

import hashlib
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import orjson
from typing_extensions import override

from beam_jobs.corpus.labels import label_of, split_of, text_of
from beam_jobs.corpus.names import readable_name
from beam_jobs.corpus.record import (
    Annotations,
    RawRecord,
    ReadResult,
    Rejection,
    SourceItem,
    UnusableRecord,
)
from beam_jobs.corpus.record_extractor import ItemExtractor
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.options.records import RecordOptions
from beam_jobs.options.values import parse_features, splits_are_given
from foundation.wording import parse_size
from shard_format import InputError
from shard_format.feature_values import checked

_ITEM_BYTES = 1 << 16  # 64 KiB: the weight of an item that is no file
_SHOWN = 80  # characters of an item in an id
_BATCH = 64  # records that a reading thread hands over at a time
_BATCH_BYTES = 1 << 20  # about; a batch of more is handed over at once
_NUMBER_BYTES = 8
_NUMBER = re.compile(r"[0-9]{9,18}")
_AHEAD = 4  # such batches that it is ahead
# Keys of a record that are no features.
_RESERVED = frozenset({"id", "label", "group", "split"})
_NOT_ANNOTATED = Annotations()
_Batch: TypeAlias = list[tuple[Any, int]]  # values, and how many bytes each takes


class _Names:
    """Names of the records of an item that were read: each is that of one record.

    Those of records without an id are their numbers, which need no memory until one has an id.
    """

    def __init__(self) -> None:
        self._numbered = 0  # so many at the beginning
        self._others: set[str] = set()

    def add(self, name: str, number: int) -> None:
        """Adds the name of the record with a number.

        Raises:
            Rejection: Another record has it.
        """
        if number == self._numbered and name == _number(number):
            self._numbered += 1
            return
        is_number = _NUMBER.fullmatch(name) and name == _number(int(name))
        if name in self._others or (is_number and int(name) < self._numbered):
            raise Rejection("repeated-id", f"another record of the item has the id {name!r}")
        self._others.add(name)


def _number(number: int) -> str:
    """The name of a record without an id."""
    return f"{number:09d}"


class PythonExtractor(ItemExtractor):
    """Lists the items of a program, and takes records out of them."""

    noun = "record"
    plural = "records"
    needs_class_folders = False

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._features = {one.name: one for one in parse_features("schema", options.schema)}
        self.limit = parse_size("--max-record-bytes", options.max_record_bytes)

    @override
    def resolved(self) -> RecordOptions:
        return self._options

    @override
    def items(self) -> Iterator[SourceItem]:
        """The items of the program, in their order.

        Raises:
            InputError: The program fails, or lists what is no value of JSON.
        """
        seen: set[str] = set()
        function = self._options.function("items")
        try:
            for value in function(*self._options.arguments):
                item = self._item(value)
                if item.record_id in seen:
                    item = item.rejected(Rejection("repeated-item", "it is listed twice"))
                seen.add(item.record_id)
                yield item
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{self._options.items} failed: {type(error).__name__}: {error}. Correct it."
            ) from error
        if not seen:
            raise InputError(f"{self._options.items} lists no item. Correct it.")

    def _item(self, value: Any) -> SourceItem:
        """An item of the listing.

        Raises:
            InputError: The value cannot be stored.
        """
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        try:
            text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError as error:
            raise InputError(
                f"{self._options.items} lists {value!r:.80}, which is no value of JSON ({error}). "
                "List texts, numbers, or lists and dictionaries of them."
            ) from error
        name = value if isinstance(value, str) else text.decode()
        if len(name) > _SHOWN:
            name = f"{name[: _SHOWN - 20]}~{hashlib.sha256(text).hexdigest()[:16]}"
        identity, size = text, _ITEM_BYTES
        if self._options.fingerprint:
            identity += str(self._options.function("fingerprint")(value)).encode()
        elif isinstance(value, str) and os.path.isfile(value):
            status = os.stat(value)
            size = status.st_size
            identity += b"%d %d" % (size, status.st_mtime_ns)
        digest = hashlib.blake2b(identity, digest_size=8).digest()
        return SourceItem(
            record_id=readable_name(name.strip("/").encode()).replace("/./", "/"),
            path=b"",
            label=None,
            size=size,
            mtime_ns=int.from_bytes(digest, "little", signed=True),
            kept=(text.decode(),),
        )

    @override
    def read(self, item: SourceItem) -> Iterator[ReadResult]:
        """The records of an item, and a rejected one for where reading it ends too early."""
        if item.reason:
            yield UnusableRecord(item.record_id, Rejection(item.reason, item.detail, stage="list"))
            return
        options = self._options
        function = options.function("read")
        value, more, limit = orjson.loads(item.kept[0]), options.arguments, options.read_limit
        number, names = 0, _Names()
        try:
            for record, size in limited(lambda: iter(function(value, *more)), limit):
                yield self._record(record, size, item.record_id, number, names)
                number += 1
        except Rejection as rejection:
            yield UnusableRecord(f"{item.record_id}/{number:09d}", rejection.at("read"))

    def _record(self, record: Any, size: int, item: str, number: int, names: _Names) -> ReadResult:
        name = _number(number)
        try:
            if not isinstance(record, dict | Mapping):
                detail = f"it is {type(record).__name__}, not a dictionary"
                raise Rejection("bad-record", detail)
            said = _NOT_ANNOTATED
            if not _RESERVED.isdisjoint(record):
                name = text_of(record.get("id")) or name
                said = self._annotations(record)
            names.add(name, number)
            values = self._checked(record)
            if size > self.limit:
                detail = f"it takes {size:,} bytes, more than --max-record-bytes {self.limit:,}"
                raise Rejection(TOO_LARGE, detail)
        except Rejection as rejection:
            return UnusableRecord(f"{item}/{name}", rejection.at("read"))
        return RawRecord(f"{item}/{name}", b"", values, said, size=size)

    def _checked(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the features.

        Raises:
            Rejection: One is missing, of another form, or of no feature.
        """
        values = {}
        for name, feature in self._features.items():
            if name not in record:
                raise Rejection("missing-feature", f"it has no {name!r}")
            try:
                values[name] = checked(feature, record[name])
            except ValueError as error:
                raise Rejection("bad-value", str(error)) from None
        if len(record) > len(values):
            others = record.keys() - values.keys() - _RESERVED
            if others:
                raise Rejection("unknown-feature", f"it has {min(map(str, others))!r}")
        return values

    def _annotations(self, record: Mapping[str, Any]) -> Annotations:
        options = self._options
        return Annotations(
            label=None if options.no_labels else label_of(record.get("label"), (), options),
            group=text_of(record.get("group")),
            split=split_of(record.get("split")) if splits_are_given(options.split) else None,
        )

    @override
    def container_of(self, item: SourceItem) -> str:
        return ""

    @override
    def known_format(self, item: SourceItem) -> str:
        return "python"

    @override
    def format_of(self, head: bytes, name: str) -> str:
        return ""

    @override
    def is_primary(self, name: str) -> bool:
        return True


def _bytes_of(value: Any) -> int:
    """About how many bytes a value takes; it is asked for every value of every record."""
    kind = type(value)
    if kind is bytes or kind is str or kind is bytearray:
        return len(value)
    if kind is int or kind is float:
        return _NUMBER_BYTES
    if isinstance(value, dict | Mapping):
        return sum([_bytes_of(one) for one in value.values()])
    if isinstance(value, list | tuple):
        is_of_numbers = value and isinstance(value[0], int | float)
        return len(value) * _NUMBER_BYTES if is_of_numbers else sum(map(_bytes_of, value))
    return getattr(value, "nbytes", _NUMBER_BYTES)


def limited(make: Callable[[], Iterator[Any]], seconds: float) -> Iterator[tuple[Any, int]]:
    """What an iterator gives, in another thread, which is abandoned if it takes too long.

    With each value is how many bytes it takes, about.

    Args:
        make: Makes the iterator.
        seconds: The limit for its next value.

    Raises:
        Rejection: It takes longer, or raises something.
    """
    reading = _ReadAhead(make)
    threading.Thread(target=reading.run, daemon=True, name="shardmill-read").start()
    try:
        while True:
            try:
                batch, error, is_last = reading.values.get(timeout=seconds)
            except queue.Empty:
                yield from reading.abandon()
                detail = f"the next record takes more than {seconds:g} seconds"
                raise Rejection("too-slow", detail) from None
            yield from batch
            if error is not None:
                detail = f"{type(error).__name__}: {error}"
                raise Rejection("read-failed", detail[:500]) from error
            if is_last:
                return
    finally:
        reading.stopped.set()


class _ReadAhead:
    """An iterator that a thread reads ahead, some values at a time.

    Attributes:
        values: Batches of them, what was raised behind one, and whether it is the last.
        stopped: Set once nobody takes values any more.
    """

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self.values: queue.Queue[tuple[_Batch, BaseException | None, bool]] = queue.Queue(_AHEAD)
        self.stopped = threading.Event()
        self._make = make
        self._batch: _Batch = []
        self._lock = threading.Lock()  # around the batch, and its way into the queue

    def run(self) -> None:
        """Reads all values."""
        error: BaseException | None = None
        try:
            size = 0
            for value in self._make():
                own = _bytes_of(value)
                size += own
                with self._lock:
                    self._batch.append((value, own))
                    if len(self._batch) == _BATCH or size > _BATCH_BYTES or self.values.empty():
                        self._hand_over(None, is_last=False)
                        size = 0
                if self.stopped.is_set():
                    return
        except BaseException as raised:  # SystemExit too, which would end the thread alone
            error = raised
        with self._lock:
            self._hand_over(error, is_last=True)

    def abandon(self) -> _Batch:
        """Stops reading; returns the values that were read and not handed over."""
        with self._lock:
            self.stopped.set()
            waiting = [value for batch, _, _ in self.values.queue for value in batch]
            return waiting + self._batch

    def _hand_over(self, error: BaseException | None, *, is_last: bool) -> None:
        """Waits until there is room, or nobody takes values any more."""
        while not self.stopped.is_set():
            try:
                self.values.put((self._batch, error, is_last), timeout=0.1)
                break
            except queue.Full:
                continue
        self._batch = []
