"""Files of datasets of the Hugging Face Hub, at one commit.

What is at a commit never changes, so a listing is kept: a repository is listed once, whole, and not
folder by folder, since the Hub allows 500 to 1,000 requests in five minutes.
"""

from __future__ import annotations

import errno
import functools
import threading
from collections.abc import Iterator
from itertools import accumulate

from typing_extensions import override

from foundation.storage.base import FILE, FOLDER, Entry, Place, Stat, Url
from foundation.storage.http import ReadOnlyStorage
from foundation.storage.hub_client import HubPath, entry_of, parse, tree_of
from foundation.storage.object_file import Answer
from foundation.storage.prefetch import Prefetched

# The entries of each folder, by its path and their names.
_Tree = dict[str, dict[str, Entry]]

_MAX_TREES = 16


class HubStorage(ReadOnlyStorage):
    """Files of datasets; a revision that is no commit is looked up once by each process."""

    def __init__(self, prefetched: Prefetched) -> None:
        super().__init__(prefetched)
        self._trees: dict[HubPath, _Tree] = {}
        self._lock = threading.Lock()

    @override
    def request(self, url: Url, offset: int, size: int) -> Answer:
        where = _where(url)
        if self._listed(where) is not None and self._entry(where) is None:  # as the Hub would say
            raise FileNotFoundError(errno.ENOENT, "No such file", str(url))
        return super().request(url, offset, size)

    @override
    def stat(self, place: Place) -> Stat | None:
        entry = self._entry(_where(place))
        return entry.stat if entry is not None and entry.kind == FILE else None

    @override
    def is_folder(self, place: Place) -> bool:
        entry = self._entry(_where(place))
        return entry is not None and entry.kind == FOLDER

    @override
    def list_folder(self, place: Place) -> Iterator[Entry]:
        where = _where(place)
        entries = self._tree(where).get(where.path)
        if entries is None:
            raise FileNotFoundError(errno.ENOENT, "No such folder", str(place))
        yield from entries.values()

    @override
    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        where = _where(place)
        below = f"{where.path}/" if where.path else ""
        for folder, entries in self._tree(where).items():
            if f"{folder}/".startswith(below) or not below:
                inside = f"{folder}/"[len(below) :] if folder else ""
                files = (entry for entry in entries.values() if entry.kind == FILE)
                yield from ((inside + entry.name, entry.stat) for entry in files)

    def _entry(self, where: HubPath) -> Entry | None:
        tree = self._tree(where) if not where.path else self._listed(where)
        if tree is None:
            return _entry_at(where)
        if where.path in tree:
            return Entry("", FOLDER, Stat(0, 0))
        folder, _, name = where.path.rpartition("/")
        return tree.get(folder, {}).get(name)

    def _listed(self, where: HubPath) -> _Tree | None:
        """A listing that has a path; None if there is none yet."""
        names = where.path.split("/")
        above = ["", *accumulate(names, "{}/{}".format)]
        trees = (self._trees.get(where._replace(path=path)) for path in above)
        return next((tree for tree in trees if tree is not None), None)

    def _tree(self, where: HubPath) -> _Tree:
        """A listing that has a folder."""
        with self._lock:
            tree = self._listed(where)
            if tree is None:
                tree = {where.path: {}}
                for folder, entry in tree_of(where):
                    tree.setdefault(folder, {})[entry.name] = entry
                while len(self._trees) >= _MAX_TREES:
                    del self._trees[next(iter(self._trees))]
                self._trees[where] = tree
        return tree


def _where(place: Place) -> HubPath:
    return parse(str(place)).pinned


@functools.lru_cache(maxsize=1 << 16)
def _entry_at(where: HubPath) -> Entry | None:
    return entry_of(where)
