"""A shard set as it was opened, and whether it is still that set.

`shardmill compact` and `--overwrite` put other shards in the place of those that a reader knows. An
offset of the old index then points anywhere in a new shard, where records are as long as each other
even at the begin of another record: no checksum tells. The manifest is replaced before the first
shard, so bytes are the old ones if the manifest still is when they have been read.
"""

from __future__ import annotations

import weakref

from foundation import storage
from foundation.storage import Place
from shard_format import SetReplacedError, ShardmillError, load_manifest, manifest_with
from shard_format.naming import MANIFEST


class OpenedSet:
    """A set with the root hash that it had.

    Args:
        directory: The set.
        root_hash: Root hash of the set, or of an earlier generation.
    """

    def __init__(self, directory: Place, root_hash: str) -> None:
        self._directory, self._root_hash = directory, root_hash
        self._checked: storage.Stat | None = None
        _OPENED.add(self)

    def has_file_in(self, message: str) -> bool:
        """Whether a message names a file of the set."""
        return f"{self._directory}/" in message

    def check(self) -> None:
        """Checks that the set still has the records that were opened: some microseconds.

        Raises:
            SetReplacedError: It has others.
        """
        try:
            stat = storage.stat(self._directory / MANIFEST)
            if stat is not None and stat == self._checked:
                return
            if manifest_with(self._directory, self._root_hash) is None:
                raise SetReplacedError(
                    f"{self._directory} was compacted or built again while it was read: its root "
                    f"hash was {self._root_hash} and is {load_manifest(self._directory).root_hash}."
                    " Open it again; 'shardmill train' continues with the same command after a "
                    "compaction that removed nothing."
                )
        except SetReplacedError:
            raise
        except (OSError, ShardmillError):
            return  # whether it was replaced cannot be known, and what is missing says so itself
        self._checked = stat


# Those that a data set of this process may read, for errors of TensorFlow that name no set.
_OPENED: weakref.WeakSet[OpenedSet] = weakref.WeakSet()


def check_opened_sets(message: str) -> None:
    """Checks the sets that this process reads; called where reading has failed.

    Args:
        message: Text of the error. If it has the path of a file of a set, only that set is checked.

    Raises:
        SetReplacedError: One has other records than were opened.
    """
    opened = list(_OPENED)
    for one in [one for one in opened if one.has_file_in(message)] or opened:
        one.check()
