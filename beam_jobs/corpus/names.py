"""Names that every corpus is given in the same way, and which files are read by their names."""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Sequence

from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_globs
from foundation import storage
from foundation.storage import Place
from foundation.wording import visible
from shard_format import InputError

# What people call the three splits, by the name that a shard set gives them.
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}

# Names of splits in file names, besides those above (MNIST's test files).
_IN_FILE_NAMES = SPLIT_NAMES | {"t10k": "test"}
_SYSTEM_FILES = (b"thumbs.db", b"desktop.ini", b"__macosx")
_ARCHIVE_NAME = re.compile(r"\.(zip|tar|tgz|tar\.\w+|t(gz|zst|xz|bz2))$")


def is_hidden(name: bytes) -> bool:
    """Whether a file or folder is hidden, or one that Windows or macOS leaves behind."""
    return name.startswith(b".") or name.lower() in _SYSTEM_FILES


def has_archive_name(name: str) -> bool:
    """Whether a name ends as those of archives do."""
    return _ARCHIVE_NAME.search(name.lower()) is not None


def is_hidden_member(name: str) -> bool:
    """Whether a member of an archive is hidden, or in a hidden folder."""
    return any(is_hidden(part.encode()) for part in name.split("/"))


def split_name(given: str) -> str | None:
    """The split that a folder or a value of a split column names; None if it names none."""
    return SPLIT_NAMES.get(given.strip().lower())


def split_in_file_name(name: str) -> str | None:
    """The split in the first word of a file name that is one (train-00000-of-00005.parquet)."""
    words = (word.lower() for word in re.split(r"[-_. ]", name))
    return next((_IN_FILE_NAMES[word] for word in words if word in _IN_FILE_NAMES), None)


def without_split(folders: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """(split, other folders): the first folder that names a split is not a class."""
    for at, name in enumerate(folders):
        if split_name(name) is not None:
            return split_name(name), folders[:at] + folders[at + 1 :]
    return None, folders


def prefixes(roots: Sequence[Place]) -> list[tuple[str, Place]]:
    """The roots in an order that does not depend on the command line, with their id prefixes.

    A prefix is the last name of a root; of roots with the same last name as many names of the
    folders above as tell them apart (A/tests/ and B/tests/).

    Raises:
        InputError: A root is missing, or inside of another.
    """
    for root in roots:
        if not storage.exists(root):
            raise InputError(f"The source {root} does not exist. Check the path.")
    if len(roots) == 1:
        return [("", roots[0])]
    paths = {root: storage.parts(storage.resolved(root)) for root in roots}
    in_order = sorted(roots, key=paths.__getitem__)
    for outer, inner in itertools.pairwise(in_order):
        if paths[inner][: len(paths[outer])] == paths[outer]:
            how = "the same as" if paths[inner] == paths[outer] else "inside of"
            raise InputError(
                f"The source {inner} is {how} the source {outer}, so files would be read twice. "
                "Leave one of them out."
            )
    lengths = _distinct_ends(list(paths.values()))
    named = {
        "".join(f"{readable_name(os.fsencode(part))}/" for part in path[-length:]): root
        for (root, path), length in zip(paths.items(), lengths, strict=True)
    }
    return sorted(named.items())


def _distinct_ends(paths: list[tuple[str, ...]]) -> list[int]:
    """How many of its last parts tell each path from the others.

    The least number with which no end begins with another: ids below A/ could else be those below
    A/tests/. No path may begin with another.
    """
    lengths = [1] * len(paths)
    while True:
        ends = sorted((path[-lengths[at] :], at) for at, path in enumerate(paths))
        longer, (first, first_at) = set[int](), ends[0]
        for end, at in ends[1:]:
            if end[: len(first)] != first:
                first, first_at = end, at
                continue
            can_grow = lengths[at] < len(paths[at])
            longer |= {at, first_at} if end == first or not can_grow else {at}
        longer = {at for at in longer if lengths[at] < len(paths[at])}
        if not longer:
            return lengths
        for at in longer:
            lengths[at] += 1


def readable_name(name: bytes) -> str:
    """A file name as text: UTF-8, with every byte that is not as //xNN.

    No two names become the same text, for no file name holds a slash.
    """
    if name.isascii():
        return name.decode()  # the usual case
    return name.decode("utf-8", "surrogateescape").translate(_ESCAPES)


def member_name(name: bytes) -> str:
    """The name of a member of an archive as text that is safe in a record id.

    Repeated slashes and "." are left out, as in unpacking. A part that would lead elsewhere is
    escaped (".." becomes //x2e//x2e), since a record id may become a path again.
    """
    if b"//" not in name and b"." not in (name[:1], name[-1:]) and b"/." not in name:
        text = readable_name(name)  # the usual case, a million times
        return f"//x2f{text[1:]}" if text.startswith("/") else text
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    text = "/".join("//x2e//x2e" if part == b".." else readable_name(part) for part in parts)
    return f"//x2f{text}" if name.startswith(b"/") else text


def original_name(record_id: str) -> bytes:
    """The inverse of `readable_name` and `member_name`: a name as a folder or an archive has it.

    What `member_name` leaves out ("./", repeated slashes) stays out.
    """
    return _ESCAPED.sub(lambda found: bytes((int(found[1] or found[2], 16),)), record_id.encode())


def own_path(record_id: str) -> str:
    """The path of a file or member; of one whose name is repeated without the number of it."""
    return _COPY.sub("", record_id)


def own_name(record_id: str) -> str:
    """The last part of a path; bytes that are not UTF-8 stay spelled as //xNN."""
    path = own_path(record_id).replace(_ESCAPE, _NO_NAME)
    return path.rpartition("/")[2].replace(_NO_NAME, _ESCAPE)


def shown_name(record_id: str) -> str:
    r"""The original name for a reader or a terminal: bytes that are not UTF-8 as \xNN."""
    return visible(original_name(record_id).decode("utf-8", "backslashreplace"))


# No name has two slashes in a row. The ids of members that begin with a byte that is not UTF-8 have
# //x2f in front, as if there was a slash. They stay: the order of records depends on ids.
_ESCAPED = re.compile(rb"//x2f/x([89a-f][0-9a-f])|//x([0-9a-f]{2})")
_ESCAPE, _NO_NAME = "//x", "\0x"  # no name holds a zero
_COPY = re.compile(r"//\d+$")
_ESCAPES = {0xDC00 + byte: f"//x{byte:02x}" for byte in range(0x80, 0x100)}


# Globs as expressions: those for names, and those for paths.
Globs = tuple[list[re.Pattern[str]], list[re.Pattern[str]]]


class Selection:
    """The files and members of archives that a job reads, by their ids.

    Args:
        options: The job.
    """

    def __init__(self, options: PreprocessOptions) -> None:
        self._include = _expressions("--include", options.include)
        self._exclude = _expressions("--exclude", options.exclude)

    def __bool__(self) -> bool:
        return any(self._include) or any(self._exclude)

    def excludes(self, *ids: str) -> bool:
        """Whether a glob of --exclude matches a file, or a member or its archive."""
        return _match(self._exclude, ids)

    def takes(self, *ids: str) -> bool:
        """Whether a file is read; a member, if a glob of --include matches it or its archive."""
        included = not any(self._include) or _match(self._include, ids)
        return included and not self.excludes(*ids)


def _expressions(flag: str, globs: str | None) -> Globs:
    parsed = parse_globs(flag, globs) if globs else ()
    expressions = {glob: re.compile(fnmatch.translate(glob)) for glob in parsed}
    of_names = [one for glob, one in expressions.items() if "/" not in glob]
    return of_names, [one for glob, one in expressions.items() if "/" in glob]


def _match(globs: Globs, ids: tuple[str, ...]) -> bool:
    of_names, of_paths = globs
    if not (of_names or of_paths):
        return False  # of most jobs, for every file
    return any(
        any(one.match(own_name(id)) for one in of_names)
        or any(one.match(own_path(id)) for one in of_paths)
        for id in ids
    )
