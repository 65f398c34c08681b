"""A new set in the place of an old one in an object store, where no folder is renamed.

It is built below OUT, as `compact` does it: manifest.json is replaced by one that names the new
files where they are, they are copied to their names, manifest.json is replaced again, and the old
files are deleted. Before and after each step manifest.json names whole files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam_jobs.generations.settling import (
    abandon,
    settle,
    target_of,
    write_state,
)
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import load_build, load_manifest, naming
from shard_format.compaction import REPLACEMENT, State, read_state
from shard_format.own_checksums import build_text


class ReplacementInStore:
    """The old set, and the folder of the new one; see `replacement.Replacement`.

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
        """Within this context nobody else builds into the directory.

        Raises:
            InputError: Somebody does.
        """
        with Workspace(self.directory, None).lock():
            try:
                state = read_state(self.directory)
                if state is not None and state.root_hash:
                    settle(self.directory, state)  # it was killed in its last steps
                elif state is not None and state.digest != REPLACEMENT:
                    abandon(self.directory)  # a compaction of the set that is replaced
                write_state(self.directory, State(REPLACEMENT, 1, 0, [], False, ""))
                yield
            finally:
                storage.delete_tree(self.directory / naming.WORK_DIR)

    def finish(self) -> None:
        """Gives the new set its place, and deletes the old one."""
        manifest, build = load_manifest(self.new), load_build(self.new)
        if "options" in build:
            build["options"]["out"] = str(self.directory)
            storage.write_bytes(self.new / naming.BUILD, build_text(build, manifest))
        report = storage.stat(self.new / naming.REPORT) is not None
        state = State(REPLACEMENT, 1, 0, [], report, manifest.root_hash)
        write_state(self.directory, state)
        settle(self.directory, state)

    def delete_new(self) -> None:
        """Deletes the new folder, where none is needed."""
        abandon(self.directory)
