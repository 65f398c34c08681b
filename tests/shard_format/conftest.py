"""A storage without folders, renames and paths, as object stores are, for tests of the layer."""

from __future__ import annotations

import contextlib
import io
import time

import pytest

from shard_format import storage


class MemoryFile:
    """An object that is read with a request each."""

    def __init__(self, objects, place):
        self._data = objects.read_file(place, 0, 0)
        self._objects = objects
        self.size = len(self._data)

    def read_at(self, offset, size):
        self._objects.requests += 1
        return self._data[offset : offset + size]

    def read_into(self, offset, buffer):
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        pass


class MemoryStorage:
    """Objects by URL; `requests` counts what an object store would be asked."""

    def __init__(self):
        self.objects = {}
        self.requests = 0

    def read_ranges(self, place, ranges):
        for offset, size in ranges:
            self.requests += 1
            yield self._get(place)[offset : offset + size]

    def read_file(self, place, size, limit):
        self.requests += 1
        return self._get(place)

    def open_input(self, place):
        self.requests += 1
        return io.BytesIO(self._get(place))

    def open_random(self, place):
        return MemoryFile(self, place)

    def _get(self, place):
        try:
            return self.objects[str(place)][0]
        except KeyError:
            raise FileNotFoundError(2, "No such object", str(place)) from None

    def stat(self, place):
        self.requests += 1
        found = self.objects.get(str(place))
        return storage.Stat(len(found[0]), found[1]) if found else None

    def is_folder(self, place):
        return any(True for _ in self.list_folder(place))

    def list_folder(self, place):
        self.requests += 1
        prefix, folders = f"{place}/", set()
        for url, (data, changed) in list(self.objects.items()):
            if url.startswith(prefix):
                name, below, _ = url[len(prefix) :].partition("/")
                if not below:
                    yield storage.Entry(name, storage.FILE, storage.Stat(len(data), changed))
                elif name not in folders:
                    folders.add(name)
                    yield storage.Entry(name, storage.FOLDER, storage.Stat(0, 0))

    def make_folder(self, place):
        pass

    @contextlib.contextmanager
    def create(self, place, *, durable, if_absent, scratch):
        file = io.BytesIO()
        yield file
        self.requests += 1
        if if_absent and str(place) in self.objects:
            raise FileExistsError(17, "Object exists", str(place))
        self.objects[str(place)] = (file.getvalue(), time.time_ns())

    def delete(self, place):
        self.requests += 1
        self.objects.pop(str(place), None)

    def delete_tree(self, place):
        for url in [url for url in self.objects if url.startswith(f"{place}/")]:
            self.delete(url)

    def copy(self, folder, name):
        """The URL of a copy of a local folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                url = f"memory://{name}/{path.relative_to(folder).as_posix()}"
                self.objects[url] = (path.read_bytes(), path.stat().st_mtime_ns)
        return storage.Url(f"memory://{name}")


@pytest.fixture
def memory(monkeypatch):
    """The storage of memory:// URLs while a test runs."""
    found = MemoryStorage()
    monkeypatch.setitem(storage.STORAGES, "memory", found)
    return found
