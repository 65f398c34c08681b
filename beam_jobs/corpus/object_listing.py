"""The objects below a folder in an object store, listed by prefix, several prefixes at a time.

A page of a listing has 1,000 objects of any depth and takes a request, and pages come one after the
other. So the folders of the first levels are listed at the same time; what is below one of them is
sorted and used while the next are on their way.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from foundation import storage
from foundation.storage import Place, Stat

_AT_A_TIME = 16  # prefixes
_ENOUGH = 64  # prefixes; with fewer of them the next level is looked into
_MAX_LEVELS = 3
_PAGE = 1000  # objects
_STAT = struct.Struct("<qq")


class Tree:
    """Files, sorted folder by folder.

    Args:
        files: Relative names and status.

    Attributes:
        without: Folders that are listed as a whole and have no file of the noted name.
    """

    def __init__(self, files: Iterable[tuple[str, Stat]]) -> None:
        self.without = set[str]()
        # The zero byte sorts before all that a name can have: a folder before a file a.txt.
        self._packed = sorted(
            f"{name}/".replace("/", "\0").encode() + _STAT.pack(*status) for name, status in files
        )

    @classmethod
    def below(cls, prefix: str, files: Iterable[tuple[str, Stat]], noted: str) -> Tree:
        """All files below a prefix; "" is that of the root."""
        folders, have_noted = {prefix}, set[str]()

        def seen() -> Iterator[tuple[str, Stat]]:
            for name, status in files:
                folder, _, last = _joined(prefix, name).rpartition("/")
                if last == noted:
                    have_noted.add(folder)
                while folder not in folders:  # and all around it
                    folders.add(folder)
                    folder = folder.rpartition("/")[0]
                yield _joined(prefix, name), status

        tree = cls(seen())
        tree.without = folders - have_noted
        return tree

    def __iter__(self) -> Iterator[tuple[str, Stat]]:
        for packed in self._packed:
            name = packed[: -_STAT.size - 1].decode().replace("\0", "/")
            yield name, Stat(*_STAT.unpack(packed[-_STAT.size :]))


class _Prefix(NamedTuple):
    """A prefix, of which everything is listed together.

    Attributes:
        name: Below the root, without a slash at the end; "" is the root.
        is_leaf: Whether it was looked into and seems to have no folders.
    """

    name: str
    is_leaf: bool = False


# What is listed together: files that are known by now, or all below a prefix.
_Piece = Tree | _Prefix


def sorted_trees(root: Place, noted: str) -> Iterator[Tree]:
    """All files below a root as trees, one after the other in the order of names.

    Args:
        root: A folder.
        noted: The name of a file of which it is wanted which folders have none.

    Raises:
        OSError: A listing fails.
    """
    over = threading.Event()

    def listed(piece: _Piece) -> Tree:
        if isinstance(piece, Tree):
            return piece
        files = itertools.takewhile(lambda _: not over.is_set(), _list_below(root, piece))
        return Tree.below(piece.name, files, noted)

    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="listing") as pool:
        coming: deque[Future[Tree]] = deque()
        try:
            for piece in _pieces(root, noted, pool):
                if len(coming) == _AT_A_TIME:
                    yield coming.popleft().result()
                coming.append(pool.submit(listed, piece))
            while coming:
                yield coming.popleft().result()
        finally:
            over.set()


def _pieces(root: Place, noted: str, pool: ThreadPoolExecutor) -> list[_Piece]:
    """The first levels of folders, in the order of names; no more of them than pays."""
    pieces: list[_Piece] = [_Prefix("")]
    for _ in range(_MAX_LEVELS):
        prefixes = [piece for piece in pieces if isinstance(piece, _Prefix)]
        if len(prefixes) >= _ENOUGH or all(prefix.is_leaf for prefix in prefixes):
            break
        found = pool.map(lambda piece: _looked_into(root, piece, noted), pieces)
        pieces = list(itertools.chain.from_iterable(found))
    return pieces


def _looked_into(root: Place, piece: _Piece, noted: str) -> list[_Piece]:
    """The files and folders of a prefix; itself if it begins with a page of files alone."""
    if isinstance(piece, Tree) or piece.is_leaf:
        return [piece]
    prefix = piece.name
    first = list(itertools.islice(_list_below(root, piece), _PAGE))
    if len(first) < _PAGE:
        return [Tree.below(prefix, first, noted)]
    if not any("/" in name for name, _ in first):
        return [piece._replace(is_leaf=True)]
    folder = root / prefix if prefix else root
    entries = sorted(storage.list_folder(folder), key=lambda entry: f"{entry.name}\0".encode())
    own = Tree(())  # what is known of the folder comes before anything in it
    own.without = set() if any(entry.name == noted for entry in entries) else {prefix}
    found: list[_Piece] = [own]
    for is_folder, some in itertools.groupby(entries, lambda entry: entry.kind == storage.FOLDER):
        if is_folder:
            found += [_Prefix(_joined(prefix, entry.name)) for entry in some]
        else:
            found.append(Tree((_joined(prefix, entry.name), entry.stat) for entry in some))
    return found


def _list_below(root: Place, prefix: _Prefix) -> Iterator[tuple[str, Stat]]:
    return storage.list_tree(root / prefix.name if prefix.name else root)


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name
