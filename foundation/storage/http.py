"""Files of web servers: https:// and http://, to read one file each.

A server has no listing, so a URL names a file. Size and time come from a request for its first
byte, since some servers answer GET alone. A file of a server without range requests is copied, and
read there.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from typing_extensions import override

from foundation.errors import InputError, UsageError
from foundation.retries import retry
from foundation.storage.base import Entry, Place, Stat, Url
from foundation.storage.in_flight import start
from foundation.storage.object_file import Answer
from foundation.storage.objects import (
    ObjectStorage,
    attempts,
    client,
    object_stat,
    object_url,
    requested,
)
from foundation.storage.prefetch import Prefetched
from foundation.storage.whole_copies import WholeCopies

Result = TypeVar("Result")

# Seconds before further attempts after a 429, whose Retry-After the client does not look at: the
# Hub counts requests in windows of five minutes.
_LIMIT_SECONDS = (15.0, 60.0, 120.0, 120.0)
# Seconds before further attempts to copy a file that broke off.
_TRANSFER_SECONDS = (0.2, 1.0, 4.0, 16.0)
_PAGE = "text/html"
_NO_ANSWER_TO_RANGES = (errno.EOPNOTSUPP, errno.ERANGE)


class ReadOnlyStorage(ObjectStorage):
    """Objects that are only read; their server may have no range requests."""

    def __init__(self, prefetched: Prefetched) -> None:
        super().__init__(prefetched)
        self._copies = WholeCopies()

    @override
    def request(self, url: Url, offset: int, size: int) -> Answer:
        copy = self._copies.of(url)
        if copy is None:
            try:
                return _patiently(partial(requested, url, offset, size))
            except OSError as error:
                if not _lacks_ranges(error):
                    raise
            # After an interruption the client asks for the rest, which the server has not.
            copy = retry(partial(self._copies.make, url), _TRANSFER_SECONDS, _lacks_ranges)
        return copy.read(offset, size)

    @override
    def make_folder(self, place: Place) -> None:
        refuse_to_write(place)

    @override
    @contextlib.contextmanager
    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> Iterator[BinaryIO]:
        refuse_to_write(place)
        yield

    @override
    def delete(self, place: Place) -> None:
        refuse_to_write(place)

    @override
    def delete_tree(self, place: Place) -> None:
        refuse_to_write(place)


class WebStorage(ReadOnlyStorage):
    """Files of web servers."""

    @override
    def stat(self, place: Place) -> Stat | None:
        """Raises an InputError for a web page whose name is not that of one."""
        url = object_url(place)
        try:
            meta, kind = start(partial(_head, url)).result()
        except FileNotFoundError:
            return None
        if kind.startswith(_PAGE) and not url.name.endswith((".html", ".htm")):
            raise InputError(
                f"{url} is a web page, not a file of data. Name one file: https:// has no "
                "listing. A dataset of the Hugging Face Hub is hf://datasets/OWNER/NAME."
            )
        stat = object_stat(meta)
        self._copies.keep_if(url, stat)
        return stat

    @override
    def is_folder(self, place: Place) -> bool:
        return False

    @override
    def list_folder(self, place: Place) -> Iterator[Entry]:
        raise OSError(errno.ENOTDIR, "A web server has no listing", str(place))

    @override
    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        raise OSError(errno.ENOTDIR, "A web server has no listing", str(place))


def refuse_to_write(place: object, what: str = "") -> NoReturn:
    """Says that a place is only read.

    Raises:
        UsageError: Always.
    """
    scheme = str(place).partition("://")[0]
    raise UsageError(
        f"{what}{place} cannot be written: {scheme}:// is only read. Name a folder or a bucket."
    )


def _patiently(request: Callable[[], Result]) -> Result:
    """The result of a request, which waits while the server has had too many."""
    return retry(request, _LIMIT_SECONDS, _is_limit)


def _is_limit(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EBUSY


def _head(url: Url) -> tuple[Any, str]:
    """(metadata, kind of content) of a file."""

    def ask(store: Any, key: str, **options: Any) -> tuple[Any, str]:
        result = client().get(store, key, options=options)
        return result.meta, str(result.attributes.get("Content-Type", ""))

    try:
        return _patiently(partial(attempts, url, partial(ask, range=(0, 1))))
    except OSError as error:
        if error.errno not in _NO_ANSWER_TO_RANGES:
            raise
    return attempts(url, ask)  # of an empty file, or of a server without ranges


def _lacks_ranges(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EOPNOTSUPP
