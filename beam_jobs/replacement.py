"""A new set in the place of an old one; the lock of OUT is held from the beginning to the end.

On a disk the new set is built as OUT.new. Linux exchanges the names of two folders in one step, so
OUT is the old set or the new one at every moment. A file system that cannot (NFS, FUSE) needs two
renames; in between, OUT is not there. What a killed replacement has left is put in order by the
next one. In an object store, where no folder is renamed, the new set is built below OUT and gets
its place as a compacted one does, see `publishing`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from beam_jobs.publishing import abandon, publish_set, target_of, write_state
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from foundation.storage.local import flush_names
from shard_format import Generation, InputError, load_build, load_manifest, naming
from shard_format.checksums import build_text, has_own_card
from shard_format.compaction import REPLACEMENT, State, read_state

_SUFFIX = ".new"
# In the work folder of an old set: it may be deleted once it has lost its name.
_MARK = "replaced"
# Where the old set waits if names cannot be exchanged: in the work folder of the new one.
_BEFORE = "before"
_AT_WORKING_FOLDER, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_OWN = {
    *(naming.MANIFEST, naming.BUILD, naming.REPORT, naming.DUPLICATES, naming.CROISSANT),
    *(naming.INDEX_DIR, naming.QUARANTINE_DIR, naming.WORK_DIR),
    *(naming.GENERATIONS_DIR, naming.FINGERPRINTS_DIR),
}


class FolderReplacement:
    """The old set, and the folder of the new one. Local sets only.

    Args:
        directory: The set; a link to one stays a link.

    Attributes:
        directory: The same, without links.
        new: Where the new set is built.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.new = self.directory.with_name(self.directory.name + _SUFFIX)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps others from building into the directory.

        Raises:
            InputError: Somebody does, or a file there is not of the set.
        """
        self._check_place()
        with Workspace(self.directory, None).lock():
            try:
                if (self.new / naming.WORK_DIR / _MARK).exists():
                    self.delete_new()  # the old set of a replacement that was killed
                yield
            finally:
                # Last, for it has the lock: nobody else finds the names half changed.
                shutil.rmtree(self.directory / naming.WORK_DIR, ignore_errors=True)

    def finish(self) -> None:
        """Gives the new set its name, and deletes the old one."""
        _name_final_place(self.new, self.directory)
        (self.directory / naming.WORK_DIR / _MARK).touch()
        if not _exchange(self.new, self.directory):
            before = self.new / naming.WORK_DIR / _BEFORE
            before.parent.mkdir(exist_ok=True)
            self.directory.rename(before)
            self.new.rename(self.directory)
        flush_names(self.directory.parent)
        self.delete_new()

    def recover(self) -> None:
        """Gives the old set its name back, if a replacement was killed between two renames."""
        before = self.new / naming.WORK_DIR / _BEFORE
        if before.exists() and not self.directory.exists():
            with Workspace(self.new, None).lock():
                before.rename(self.directory)

    def delete_new(self) -> None:
        """Deletes the new folder: once it has the old set, or where none is needed."""
        if not self.new.exists():
            return
        for entry in self.new.iterdir():
            if entry.name != naming.WORK_DIR:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        shutil.rmtree(self.new)  # the mark last

    def _check_place(self) -> None:
        """Checks that the directory may be deleted, and has a name that can be changed.

        Raises:
            InputError: A file in it is not of the set, or it is a mount point.
        """
        check_own(self.directory)
        if self.directory.stat().st_dev != self.directory.parent.stat().st_dev:
            raise InputError(
                f"{self.directory} is a mount point, whose name cannot be changed. Build into a "
                "folder below it."
            )


class ReplacementInStore:
    """The old set, and the folder of the new one; see `FolderReplacement`.

    Args:
        directory: The set.

    Attributes:
        directory: The same.
        new: Where the new set is built.
    """

    def __init__(self, directory: Place) -> None:
        self.directory = directory
        self.new = target_of(directory)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps others from building into the directory.

        Raises:
            InputError: Somebody does.
        """
        with Workspace(self.directory, None).lock():
            try:
                state = read_state(self.directory)
                if state is not None and state.root_hash:
                    publish_set(self.directory, state)  # it was killed in its last steps
                elif state is not None and state.digest != REPLACEMENT:
                    abandon(self.directory)  # a compaction of the set that is replaced
                write_state(self.directory, State(REPLACEMENT, 1, 0, [], False, ""))
                yield
            finally:
                storage.delete_tree(self.directory / naming.WORK_DIR)

    def finish(self) -> None:
        """Gives the new set its place, and deletes the old one."""
        _name_final_place(self.new, self.directory)
        manifest = load_manifest(self.new)
        report = storage.stat(self.new / naming.REPORT) is not None
        state = State(REPLACEMENT, 1, 0, [], report, manifest.root_hash)
        write_state(self.directory, state)
        publish_set(self.directory, state)

    def delete_new(self) -> None:
        """Deletes the new folder, where none is needed."""
        abandon(self.directory)


def check_own(directory: Place) -> None:
    """Checks that every file in the folder of a set is of the set, and may be deleted.

    Raises:
        InputError: One is not.
    """
    manifest = load_manifest(directory)
    own = {shard.file for split in manifest.splits.values() for shard in split.shards}
    own |= {naming.CARD} if has_own_card(directory) else set()
    own |= _OWN | {name.partition("/")[0] for name in manifest.files}
    foreign = sorted({entry.name for entry in storage.list_folder(directory)} - own)
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise InputError(
            f"{directory} contains {foreign[0]!r}{more}, not of the set, which replacing it would "
            "delete. Move it, or choose another --out."
        )


def replacement_at(out: Place) -> FolderReplacement | ReplacementInStore | None:
    """Returns the replacement of the set in a directory; None if there is no set."""
    path = storage.local_path(out)
    if path is not None:
        replacement = FolderReplacement(path)
        replacement.recover()
        return replacement if (replacement.directory / naming.MANIFEST).exists() else None
    return ReplacementInStore(out) if storage.stat(out / naming.MANIFEST) is not None else None


def _name_final_place(new: Place, final: Place) -> None:
    """Writes into build.json of a set, and of each of its generations, where it will be."""
    workspace = Workspace(new, None)
    workspace.create()
    for one in load_manifest(new).generations or (Generation("", "", ""),):
        place = new / one.folder if one.folder else new
        build = load_build(place)
        if "options" not in build:
            continue
        build["options"]["out"] = str(final / one.folder if one.folder else final)
        if one.folder:
            build["options"]["base"] = str(final)
        # That of a set with generations belongs to the manifest of the first one.
        manifest = load_manifest(place) if one.folder else load_manifest(new, 0)
        with workspace.write(place / naming.BUILD, durable=True) as file:
            file.write(build_text(build, manifest))


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges the names of two folders in one step; False if the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    places = (_AT_WORKING_FOLDER, os.fsencode(one), _AT_WORKING_FOLDER, os.fsencode(other))
    if renameat2(*places, _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
