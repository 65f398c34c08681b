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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from shard_format import storage
from shard_format.storage import Place, Stat

_AT_A_TIME = 16  # prefixes
_ENOUGH = 64  # prefixes; with fewer of them the next level is looked into
_MAX_LEVELS = 3
_PAGE = 1000  # objects
_STAT = struct.Struct("<qq")


class Tree:
    """Files, sorted folder by folder.

    Args:
        files: Relative names and status.
        noted: The name of a file whose folders are wanted.

    Attributes:
        folders: The folders around all files, "" for the root among them.
        with_noted: Those that have a file of the noted name.
    """

    def __init__(self, files: Iterable[tuple[str, Stat]], noted: str) -> None:
        self.folders = set[str]()
        self.with_noted = set[str]()
        packed = []
        for name, status in files:
            folder, _, last = name.rpartition("/")
            if folder not in self.folders:
                above = itertools.accumulate(folder.split("/"), "{}/{}".format)
                self.folders.update(("", *above))
            if last == noted:
                self.with_noted.add(folder)
            # The zero byte sorts before all that a name can have: a folder before a file a.txt.
            packed.append(f"{name}/".replace("/", "\0").encode() + _STAT.pack(*status))
        self._packed = sorted(packed)

    def __iter__(self) -> Iterator[tuple[str, Stat]]:
        for packed in self._packed:
            name = packed[: -_STAT.size - 1].decode().replace("\0", "/")
            yield name, Stat(*_STAT.unpack(packed[-_STAT.size :]))


# What is listed together: the files of a folder that was looked into, or all below a prefix.
_Piece = list[tuple[str, Stat]] | str


def sorted_trees(root: Place, noted: str) -> Iterator[Tree]:
    """All files below a root as trees, one after the other in the order of names.

    Args:
        root: A folder.
        noted: See Tree.

    Raises:
        OSError: A listing fails.
    """
    over = threading.Event()

    def listed(piece: _Piece) -> Tree:
        if not isinstance(piece, str):
            return Tree(piece, noted)
        prefix = f"{piece}/" if piece else ""
        found = storage.list_tree(root / piece if piece else root)
        files = itertools.takewhile(lambda _: not over.is_set(), found)
        return Tree(((prefix + name, status) for name, status in files), noted)

    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="listing") as pool:
        coming: deque[Future[Tree]] = deque()
        try:
            for piece in _pieces(root, pool.map):
                if len(coming) == _AT_A_TIME:
                    yield coming.popleft().result()
                coming.append(pool.submit(listed, piece))
            while coming:
                yield coming.popleft().result()
        finally:
            over.set()


def _pieces(root: Place, run: Callable[..., Iterator[list[_Piece]]]) -> list[_Piece]:
    """The first levels of folders, in the order of names; no more of them than pays."""
    pieces: list[_Piece] = [""]
    for _ in range(_MAX_LEVELS):
        prefixes = sum(isinstance(piece, str) for piece in pieces)
        if not 0 < prefixes < _ENOUGH:
            break
        found = run(lambda piece: _looked_into(root, piece), pieces)
        pieces = list(itertools.chain.from_iterable(found))
    return pieces


def _looked_into(root: Place, piece: _Piece) -> list[_Piece]:
    """The files and folders of a prefix; itself if it begins with a page of files alone."""
    if not isinstance(piece, str):
        return [piece]
    folder = root / piece if piece else root
    first = list(itertools.islice(storage.list_tree(folder), _PAGE))
    if not any("/" in name for name, _ in first):
        return [piece]
    prefix = f"{piece}/" if piece else ""
    entries = sorted(storage.list_folder(folder), key=lambda entry: f"{entry.name}\0".encode())
    found: list[_Piece] = []
    for is_folder, some in itertools.groupby(entries, lambda entry: entry.kind == storage.FOLDER):
        if is_folder:
            found += [prefix + entry.name for entry in some]
        else:
            found.append([(prefix + entry.name, entry.stat) for entry in some])
    return found
