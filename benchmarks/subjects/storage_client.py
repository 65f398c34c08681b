"""One client of object storage at one task; the server is named by the environment."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from benchmarks.measure import print_result

SMALL_BYTES = 100_000
SMALL_COUNT = 2_000
SMALL_IN_FLIGHT = 64
RANGE_BYTES = 8 << 20  # 8 MiB
RANGES = 64
RANGES_IN_FLIGHT = 8
LARGE_BYTES = 256 << 20  # 256 MiB
LISTED = 10_000
RACES = 20
RACERS = 12


class Client(Protocol):
    """A client of one bucket."""

    def get(self, key: str) -> bytes:
        """An object."""

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """A range of an object."""

    def put(self, key: str, data: bytes) -> None:
        """Writes an object, in parts if the client does so."""

    def create(self, key: str, data: bytes) -> bool:
        """Writes an object if there is none; whether this one wrote it."""

    def list(self, prefix: str) -> int:
        """How many objects there are below a prefix."""


class Obstore:
    """Rust's object_store."""

    def __init__(self, scheme: str, bucket: str) -> None:
        import obstore

        self._api = obstore
        client: Any = {"allow_http": True}
        if scheme == "s3":
            endpoint = os.environ["AWS_ENDPOINT_URL"]
            self._store: Any = obstore.store.S3Store(
                bucket, endpoint=endpoint, client_options=client
            )
        else:
            # Any token will do; without one it asks Google's metadata server.
            config: Any = {"base_url": os.environ["STORAGE_EMULATOR_HOST"], "bearer_token": "none"}
            self._store = obstore.store.GCSStore(bucket, config=config, client_options=client)

    def get(self, key: str) -> bytes:
        """See Client."""
        return self._api.get(self._store, key).bytes().to_bytes()

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """See Client."""
        return self._api.get_range(self._store, key, start=offset, length=size).to_bytes()

    def put(self, key: str, data: bytes) -> None:
        """See Client."""
        self._api.put(self._store, key, data, chunk_size=8 << 20, max_concurrency=8)

    def create(self, key: str, data: bytes) -> bool:
        """See Client."""
        try:
            self._api.put(self._store, key, data, mode="create")
        except self._api.exceptions.AlreadyExistsError:
            return False
        return True

    def list(self, prefix: str) -> int:
        """See Client."""
        return sum(len(page) for page in self._api.list(self._store, prefix))


class PyArrow:
    """The C++ clients in pyarrow.fs."""

    def __init__(self, scheme: str, bucket: str) -> None:
        from pyarrow import fs

        self._fs = fs
        self._bucket = bucket
        endpoint = os.environ["AWS_ENDPOINT_URL" if scheme == "s3" else "STORAGE_EMULATOR_HOST"]
        address = urllib.parse.urlsplit(endpoint).netloc
        if scheme == "s3":
            self._files: Any = fs.S3FileSystem(endpoint_override=address, scheme="http")
        else:
            self._files = fs.GcsFileSystem(anonymous=True, endpoint_override=address, scheme="http")

    def get(self, key: str) -> bytes:
        """See Client."""
        with self._files.open_input_file(f"{self._bucket}/{key}") as file:
            return file.read()

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """See Client."""
        with self._files.open_input_file(f"{self._bucket}/{key}") as file:
            return file.read_at(size, offset)

    def put(self, key: str, data: bytes) -> None:
        """See Client."""
        # Without a buffer it waits for each MiB on GCS.
        path = f"{self._bucket}/{key}"
        with self._files.open_output_stream(path, buffer_size=32 << 20) as file:
            file.write(data)

    def create(self, key: str, data: bytes) -> bool:
        """See Client. It has no such request; the nearest is to look first."""
        if self._files.get_file_info(f"{self._bucket}/{key}").type != self._fs.FileType.NotFound:
            return False
        self.put(key, data)
        return True

    def list(self, prefix: str) -> int:
        """See Client."""
        selector = self._fs.FileSelector(f"{self._bucket}/{prefix}", recursive=True)
        return len(self._files.get_file_info(selector))


class GoogleClient:
    """google-cloud-storage, with a connection for each thread."""

    def __init__(self, scheme: str, bucket: str) -> None:
        self._bucket = bucket
        self._threads = threading.local()

    def _of_thread(self) -> Any:
        from google.cloud import storage

        if not hasattr(self._threads, "bucket"):
            self._threads.bucket = storage.Client(project="none").bucket(self._bucket)
        return self._threads.bucket

    def get(self, key: str) -> bytes:
        """See Client."""
        return self._of_thread().blob(key).download_as_bytes()

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """See Client."""
        return self._of_thread().blob(key).download_as_bytes(start=offset, end=offset + size - 1)

    def put(self, key: str, data: bytes) -> None:
        """See Client."""
        blob = self._of_thread().blob(key, chunk_size=32 << 20 if len(data) > 32 << 20 else None)
        blob.upload_from_string(data)

    def create(self, key: str, data: bytes) -> bool:
        """See Client."""
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._of_thread().blob(key).upload_from_string(data, if_generation_match=0)
        except PreconditionFailed:
            return False
        return True

    def list(self, prefix: str) -> int:
        """See Client."""
        return sum(1 for _ in self._of_thread().list_blobs(prefix=prefix))


class Fsspec:
    """s3fs or gcsfs, which fsspec's users have."""

    def __init__(self, scheme: str, bucket: str) -> None:
        import fsspec

        self._bucket = bucket
        options: Any = {"endpoint_url": os.environ.get("AWS_ENDPOINT_URL")}
        if scheme == "gs":
            options = {"endpoint_url": os.environ["STORAGE_EMULATOR_HOST"], "token": "anon"}
        self._files: Any = fsspec.filesystem(scheme, **options, use_listings_cache=False)

    def get(self, key: str) -> bytes:
        """See Client."""
        return self._files.cat_file(f"{self._bucket}/{key}")

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """See Client."""
        return self._files.cat_file(f"{self._bucket}/{key}", start=offset, end=offset + size)

    def put(self, key: str, data: bytes) -> None:
        """See Client."""
        self._files.pipe_file(f"{self._bucket}/{key}", data)

    def create(self, key: str, data: bytes) -> bool:
        """See Client."""
        try:
            self._files.pipe_file(f"{self._bucket}/{key}", data, mode="create")
        except FileExistsError:
            return False
        return True

    def list(self, prefix: str) -> int:
        """See Client."""
        return len(self._files.find(f"{self._bucket}/{prefix}"))


CLIENTS: dict[str, Callable[[str, str], Client]] = {
    "obstore": Obstore,
    "pyarrow": PyArrow,
    "google-cloud-storage": GoogleClient,
    "fsspec": Fsspec,
}


def _small(client: Client) -> int:
    with ThreadPoolExecutor(SMALL_IN_FLIGHT) as pool:
        sizes = pool.map(lambda n: len(client.get(f"small/{n:05d}")), range(SMALL_COUNT))
        assert set(sizes) == {SMALL_BYTES}
    return SMALL_COUNT


def _ranges(client: Client) -> int:
    def size(place: int) -> int:
        offset = place * RANGE_BYTES % LARGE_BYTES
        return len(client.get_range("large", offset, RANGE_BYTES))

    with ThreadPoolExecutor(RANGES_IN_FLIGHT) as pool:
        return sum(pool.map(size, range(RANGES))) >> 20


def _write(client: Client) -> int:
    client.put(f"written/{uuid.uuid4()}", bytes(1 << 20) * (LARGE_BYTES >> 20))
    return LARGE_BYTES >> 20


def _list(client: Client) -> int:
    count = client.list("listed/")
    assert count == LISTED, count
    return count


def _races(client: Client) -> int:
    """Winners of all races; each should have one."""
    winners = 0
    for _ in range(RACES):
        key, start = f"raced/{uuid.uuid4()}", threading.Barrier(RACERS)

        def race(racer: int, key: str = key, start: threading.Barrier = start) -> bool:
            start.wait()
            return client.create(key, str(racer).encode())

        with ThreadPoolExecutor(RACERS) as pool:
            winners += sum(pool.map(race, range(RACERS)))
    return winners


TASKS: dict[str, Callable[[Client], int]] = {
    "small": _small,
    "ranges": _ranges,
    "write": _write,
    "list": _list,
    "races": _races,
}


def main() -> None:
    """Arguments: CLIENT TASK URL."""
    name, task, url = sys.argv[1:]
    scheme, _, bucket = url.partition("://")
    client = CLIENTS[name](scheme, bucket)
    with contextlib.suppress(Exception):  # connects, and imports what is imported late
        client.get("small/00000")
    begun, cpu_begun = time.perf_counter(), time.process_time()
    done = TASKS[task](client)
    print_result(done, time.perf_counter() - begun, time.process_time() - cpu_begun)


if __name__ == "__main__":
    main()
