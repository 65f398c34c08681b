"""What URLs gave, in a folder for later builds: bytes, and why others gave none.

The rows of a list are in groups, whose files are named by a hash of their URLs:

    XX/KEY.tfrecord   an Example of each body: row, url, content_type, body
    XX/KEY.json       reason and detail of every row; written last, so that it marks the group as
                      whole

A group ends where the hash of a URL says so, so a list that grows keeps all groups but the last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.corpus.urls.client import Fetched, Outcome
from beam_jobs.corpus.urls.reasons import OPTED_OUT, PRIVATE, REDIRECTS, may_come_back
from beam_jobs.options.urls import UrlOptions
from foundation import storage
from foundation.storage import Place
from shard_format import (
    DamageError,
    Feature,
    Schema,
    decode_example,
    encode_example,
    frame,
    read_records,
)

_NOTHING = ("not-asked", "")  # of a row that a file replaces
GROUP_ROWS = 1 << 10  # at most
_MEAN_ROWS = 1 << 8
_VERSION = 1
_SCHEMA = Schema(
    "original",
    (
        Feature("row", "int64"),
        Feature("url", "text"),
        Feature("content_type", "text"),
        Feature("body", "bytes"),
    ),
)
# Reasons that are those of the options, not of the servers.
_OF_OPTIONS = frozenset({PRIVATE, OPTED_OUT, REDIRECTS, TOO_LARGE})


def ends_group(url: str) -> bool:
    """Whether a group ends behind a URL."""
    return zlib.crc32(url.encode("utf-8", "surrogatepass")) % _MEAN_ROWS == 0


class Originals:
    """The groups in a folder.

    Args:
        folder: The folder.
        options: The job.
        size_limit: Most bytes of a body.
    """

    def __init__(self, folder: Place, options: UrlOptions, size_limit: int) -> None:
        self._folder = folder
        self._size_limit = size_limit
        self._replays = options.replays
        # What refusals depend on.
        self._policy = [options.allow_private, options.ignore_opt_outs, options.max_redirects]
        self._policy.append(size_limit)

    def group(self, urls: Sequence[str]) -> OriginalGroup:
        """A group of URLs, with what is kept of them."""
        digest = hashlib.blake2b(digest_size=16)
        for url in urls:
            digest.update(hashlib.blake2b(url.encode("utf-8", "surrogatepass")).digest())
        key = digest.hexdigest()
        marker = {"version": _VERSION, "policy": self._policy, "replays": self._replays}
        place = self._folder / key[:2] / key
        return OriginalGroup(place, len(urls), marker, self._size_limit)


class OriginalGroup:
    """The rows of one group, which are taken in order, and kept in order.

    Args:
        place: Its files, without their suffixes.
        rows: Number of its URLs.
        marker: What its marker says besides the outcomes.
        size_limit: Most bytes of a body.
    """

    def __init__(self, place: Place, rows: int, marker: dict[str, Any], size_limit: int) -> None:
        self._place = place
        self._marker = marker
        self._size_limit = size_limit
        self._stored = self._usable(rows)
        self._bodies = self._read_bodies()
        self._next: tuple[int, Fetched] | None = None
        self._said: list[tuple[str, str]] = []
        self._closing = contextlib.ExitStack()
        self._file: Any = None
        if None in self._stored:
            storage.make_folder(place.parent)
            file = storage.create(self._named(".tfrecord"))
            self._file = self._closing.enter_context(file)

    def asks(self, row: int) -> bool:
        """Whether nothing usable is kept of a row."""
        return self._stored[row] is None

    def stored(self, row: int) -> Outcome | None:
        """What is kept of a row; None if it is damaged. Rows are asked for in order."""
        said = self._stored[row]
        if isinstance(said, Rejection):
            return said
        while self._next is None or self._next[0] < row:
            self._next = next(self._bodies, None)
            if self._next is None:
                return None
        return self._next[1] if self._next[0] == row else None

    def keep(self, row: int, url: str, outcome: Outcome | None) -> None:
        """Takes the outcome of the next row, if the group is written anew; None if it has none."""
        if self._file is None:
            return
        if not isinstance(outcome, Fetched):
            said = (outcome.reason, outcome.detail) if outcome is not None else _NOTHING
            self._said.append(said)
            return
        self._said.append(("", ""))
        values: dict[str, bytes | str | int] = {
            "row": row,
            "url": url,
            "content_type": outcome.content_type,
            "body": outcome.body,
        }
        self._file.write(frame(encode_example(_SCHEMA, values)))

    def finish(self) -> None:
        """Gives the files of the group their names, once all rows are kept."""
        self._bodies.close()
        if self._file is not None:
            self._closing.close()
            marker = json.dumps({**self._marker, "outcomes": self._said})
            storage.write_bytes(self._named(".json"), marker.encode())

    def abandon(self) -> None:
        """Leaves the files as they were."""
        self._bodies.close()
        self._closing.__exit__(GeneratorExit, GeneratorExit(), None)

    def _named(self, suffix: str) -> Place:
        return self._place.parent / f"{self._place.name}{suffix}"

    def _usable(self, rows: int) -> list[Rejection | str | None]:
        """For every row a refusal that holds, "" for a body, or None for a URL to ask."""
        try:
            marker = json.loads(storage.read_bytes(self._named(".json")))
            said = marker["outcomes"] if marker["version"] == _VERSION else []
            same = marker["policy"] == self._marker["policy"]
            asked = marker["replays"] >= self._marker["replays"]
        except (OSError, ValueError, KeyError, TypeError):
            said, same, asked = [], False, False
        if len(said) != rows:
            return [None] * rows
        return [
            None
            if reason == _NOTHING[0]
            or (reason in _OF_OPTIONS and not same)
            or (may_come_back(reason) and not asked)
            else Rejection(reason, detail)
            if reason
            else ""
            for reason, detail in said
        ]

    def _read_bodies(self) -> Generator[tuple[int, Fetched]]:
        """(row, what was fetched) of the file, up to damage."""
        try:
            for _, payload in read_records(self._named(".tfrecord")):
                values: Mapping[str, Sequence[Any]] = decode_example(payload)
                row, body, content_type = (
                    values[name][0] for name in ("row", "body", "content_type")
                )
                yield row, Fetched(body, content_type.decode())
        except (DamageError, OSError, LookupError, ValueError):
            return
