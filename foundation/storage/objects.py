"""Objects in buckets: s3://, gs:// and abfs://.

A bucket is flat; a folder is a prefix that ends with a slash. An object appears whole when its
upload ends. A request that fails is tried again with growing, random waits: by the client, and
here where an answer broke off.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from typing_extensions import override

from foundation.retries import retry
from foundation.storage.base import (
    FILE,
    FOLDER,
    Entry,
    File,
    Place,
    RandomAccessFile,
    Range,
    Stat,
    Storage,
    Url,
)
from foundation.storage.gcs_uploads import upload_to_gcs
from foundation.storage.in_flight import in_order, start
from foundation.storage.object_file import (
    HELD_BYTES,
    Answer,
    Block,
    ObjectFile,
    buffered,
    spooled,
)
from foundation.storage.object_stores import locate, readable_errors
from foundation.storage.prefetch import Prefetched
from foundation.storage.traffic import count

Result = TypeVar("Result")

READ_BYTES = 16 << 20  # 16 MiB a request; more is asked for in several at a time
WRITE_BYTES = 32 << 20  # 32 MiB a request of a large upload: writes cost ten times as much
_UPLOADS = 2  # of its parts in flight: they are held in memory
_LISTED = 1000  # objects a page, the most that S3 gives
_DELETES_MANY = ("s3://", "abfs")  # what has a request for that
# Seconds before further attempts after an answer that broke off.
_RETRY_SECONDS = (0.2, 1.0, 4.0)


class ObjectStorage(Storage):
    """Objects of S3, Google Cloud Storage and Azure.

    Args:
        prefetched: Ranges of the objects of any storage that are on their way.
    """

    def __init__(self, prefetched: Prefetched) -> None:
        self._prefetched = prefetched

    def request(self, url: Url, offset: int, size: int) -> Answer:
        """A range of an object; it runs in a thread of the requests."""
        return requested(url, offset, size)

    @override
    def read_ranges(self, place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        return self.read_many(Range(object_url(place), offset, size) for offset, size in ranges)

    def read_many(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """The bytes of ranges of any objects, in the order given; many requests are in flight."""
        parts: list[int] = []  # requests of each range

        def requests() -> Iterator[tuple[int, Callable[[], bytes]]]:
            for url, offset, size in ranges:
                begins = range(offset, offset + max(1, size), READ_BYTES)
                parts.append(len(begins))
                for begin in begins:
                    length = min(READ_BYTES, offset + size - begin)
                    yield length, partial(self._read, url, begin, length)

        answers, done = in_order(requests()), 0
        for first in answers:
            rest = [next(answers) for _ in range(parts[done] - 1)]
            done += 1
            yield b"".join([first, *rest]) if rest else first

    @override
    def read_file(self, place: File, size: int, limit: int) -> bytes:
        # A byte more than listed, since the object may have grown.
        wanted = min(size, limit) + 1
        return next(self.read_ranges(object_url(place), [(0, wanted)]))

    @override
    def open_input(self, place: Place) -> BinaryIO:
        file = buffered(self.open_random(place))
        file.peek(1)  # now, not later, it is found that there is none
        return cast(BinaryIO, file)

    @override
    def open_random(self, place: File) -> RandomAccessFile:
        url = object_url(place)

        def find_size() -> int:
            stat = self.stat(url)
            if stat is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(url))
            return stat.size

        return ObjectFile(partial(self._block, url), find_size)

    @override
    def stat(self, place: Place) -> Stat | None:
        url = object_url(place)
        try:
            return object_stat(_retried(url, lambda store, key: client().head(store, key)))
        except FileNotFoundError:
            return None

    @override
    def is_folder(self, place: Place) -> bool:
        url = object_url(place)
        return bool(_retried(url, lambda store, key: _page(store, f"{key}/" if key else "", 1)))

    @override
    def list_folder(self, place: Place) -> Iterator[Entry]:
        url = object_url(place)
        listing = _retried(
            url, lambda store, key: client().list_with_delimiter(store, f"{key}/" if key else "")
        )
        folders = {_name(prefix) for prefix in listing["common_prefixes"]}
        for name in folders:
            yield Entry(name, FOLDER, Stat(0, 0))
        own = locate(url).key
        for item in listing["objects"]:
            # An empty object with the name of the folder is a mark that some consoles make.
            if item["path"] != own and not (not item["size"] and _name(item["path"]) in folders):
                yield Entry(_name(item["path"]), FILE, object_stat(item))

    @override
    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        url = object_url(place)
        own = locate(url).key
        skipped = len(own) + 1 if own else 0
        mark: tuple[str, Stat] | None = None  # an empty object, which may be the mark of a folder
        for item in _pages(url):
            name = item["path"][skipped:]
            if mark is not None and not name.startswith(f"{mark[0]}/"):
                yield mark
            mark = None
            if not name:
                continue
            if item["size"]:
                yield name, object_stat(item)
            else:
                mark = name, object_stat(item)
        if mark is not None:
            yield mark

    @override
    def make_folder(self, place: Place) -> None:
        """Does nothing: an object store has no folders."""

    @override
    @contextlib.contextmanager
    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> Iterator[BinaryIO]:
        """What is larger than 32 MiB waits in a local file until it is whole."""
        with spooled(scratch) as file:
            yield file
            size = file.seek(0, io.SEEK_END)
            start(partial(_upload, object_url(place), file, size, if_absent)).result()

    @override
    def delete(self, place: Place) -> None:
        with contextlib.suppress(FileNotFoundError):
            _retried(object_url(place), lambda store, key: client().delete(store, key))

    @override
    def delete_tree(self, place: Place) -> None:
        url = object_url(place)
        while keys := _retried(url, lambda store, key: _page(store, f"{key}/" if key else "")):
            if url.text.startswith(_DELETES_MANY):
                with contextlib.suppress(FileNotFoundError):
                    _retried(url, partial(_delete_all, keys))
                continue
            # Each is a request, and is tried again by itself: of many some would always fail.
            deletions = (partial(attempts, url, partial(_delete_all, [key])) for key in keys)
            for _ in in_order((0, partial(_unless_missing, deletion)) for deletion in deletions):
                pass

    def _block(self, url: Url, offset: int, size: int) -> Block:
        block = self._prefetched.find(url, offset)
        if block is not None:
            return block
        return Block(offset, offset + size, start(partial(self.request, url, offset, size)))

    def _read(self, url: Url, offset: int, size: int) -> bytes:
        if not size:
            return b""  # there is no request for nothing
        block = self._prefetched.find(url, offset)
        if block is not None:
            data, total = block.answer.result()
            if block.end >= min(offset + size, total):
                return data[offset - block.start : offset - block.start + size]
        return self.request(url, offset, size).data


def client() -> Any:
    """The functions of obstore."""
    import obstore  # 30 ms, and not needed where all files are local

    return obstore


def object_url(place: File) -> Url:
    """The URL that an object has as a place."""
    return cast(Url, place)  # `storage_of` gives nothing else to this storage


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def object_stat(found: Any) -> Stat:
    """Size and time of an object.

    S3 has whole seconds; below them the time is filled with digits of the entity tag, so that a
    second version of the same size within a second is seen.
    """
    second = int(found["last_modified"].timestamp())
    tag = hashlib.blake2b((found["e_tag"] or "").encode(), digest_size=8).digest()
    return Stat.of(found["size"], second * 10**9 + int.from_bytes(tag, "big") % 10**9)


def _retried(url: Url, request: Callable[[Any, str], Result]) -> Result:
    """`attempts` in a thread of its own, so that Ctrl-C need not wait for it."""
    return start(partial(attempts, url, request)).result()


def attempts(url: Url, request: Callable[[Any, str], Result]) -> Result:
    """The result of a request with (store, key), tried again where an answer broke off."""

    def attempt() -> Result:
        with readable_errors(url):
            store, _, key = locate(url)
            count(1, 0)
            return request(store, key)

    pauses = (seconds * random.uniform(0.5, 1.5) for seconds in _RETRY_SECONDS)
    return retry(attempt, pauses, _is_broken_off)


def _is_broken_off(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EIO, errno.EBUSY)


def requested(url: Url, offset: int, size: int) -> Answer:
    """A range of an object, in this thread.

    Raises:
        OSError: It cannot be read; EOPNOTSUPP if the server has no ranges.
    """

    def get(store: Any, key: str) -> Answer:
        result = client().get(store, key, options={"range": (offset, offset + size)})
        data = result.bytes().to_bytes()
        count(0, len(data))
        return Answer(data, result.meta["size"])

    try:
        return attempts(url, get)
    except OSError as error:
        if error.errno != errno.ERANGE:  # it begins behind the end of the object
            raise
    meta = attempts(url, lambda store, key: client().head(store, key))
    return Answer(b"", meta["size"])


def _delete_all(keys: list[str], store: Any, _: str) -> None:
    client().delete(store, keys)


def _unless_missing(request: Callable[[], None]) -> None:
    with contextlib.suppress(FileNotFoundError):
        request()


def _page(store: Any, prefix: str, most: int = _LISTED) -> list[str]:
    """The first keys below a prefix."""
    stream = client().list(store, prefix, chunk_size=most)
    return [item["path"] for item in next(iter(stream), [])]


def _pages(url: Url) -> Iterator[Any]:
    """Every object below a folder, in the order of keys; the next page is on its way.

    A listing that breaks off begins again after the last key that it gave.
    """
    begun_after = last = ""
    pauses = iter(_RETRY_SECONDS)
    coming = _first_page(url, last)
    while True:
        try:
            with readable_errors(url):
                page, stream = coming.result()
        except OSError as error:
            pause = next(pauses, None)
            if pause is None or not _is_broken_off(error):
                raise
            time.sleep(pause * random.uniform(0.5, 1.5))
            begun_after = last
            coming = _first_page(url, last)
            continue
        if page is None:
            return
        coming, pauses = start(partial(_next_page, stream)), iter(_RETRY_SECONDS)
        # fake-gcs-server begins again at the first key.
        items = [item for item in page if item["path"] > begun_after]
        yield from items
        last = items[-1]["path"] if items else last


def _first_page(url: Url, after: str) -> Future[tuple[Any, Any]]:
    """The first page of the objects below a folder with later keys, and the stream of the rest."""

    def first() -> tuple[Any, Any]:
        store, _, key = locate(url)
        prefix = f"{key}/" if key else ""
        pages = client().list(store, prefix, offset=after or None, chunk_size=_LISTED)
        return _next_page(iter(pages))

    return start(first)


def _next_page(stream: Any) -> tuple[Any, Any]:
    return next(stream, None), stream


def _upload(url: Url, file: BinaryIO, size: int, if_absent: bool) -> None:
    """Sends a file to an object that appears whole, and is not replaced if it must be absent.

    Raises:
        OSError: There is no such bucket, or it fails.
        FileExistsError: Another writer was first. The same bytes are no other writer's: an answer
            that got lost makes this one meet itself.
    """
    held = size <= HELD_BYTES or if_absent
    file.seek(0)
    data = file.read() if held else b""

    def put(store: Any, key: str) -> None:
        if url.text.startswith("gs://"):
            file.seek(0)
            upload_to_gcs(url, file, size, if_absent=if_absent)
        elif held:
            mode = "create" if if_absent else "overwrite"
            client().put(store, key, data, mode=mode, use_multipart=False)
        else:
            file.seek(0)
            parts = {"chunk_size": WRITE_BYTES, "max_concurrency": _UPLOADS}
            client().put(store, key, file, use_multipart=True, **parts)

    try:
        attempts(url, put)
    except FileNotFoundError:
        raise OSError(errno.ENXIO, "The bucket does not exist", str(url)) from None
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):  # another writer's, removed since
            if requested(url, 0, size + 1).data == data:
                return
        raise
