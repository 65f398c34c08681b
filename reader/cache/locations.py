"""A shard set opened by path or URL: where its shards are, and copies of its small files."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Sequence
from pathlib import Path

from foundation import storage
from foundation.storage import Place, local_path, local_place_of, place_of
from reader.cache.choosing import default_cache_dir
from reader.cache.copying import Wanted, fetch
from reader.cache.inventory import Item, is_whole
from reader.cache.store import CacheLease, Store
from reader.options import Directory, ReadOptions
from shard_format import Manifest, ShardSetError, UsageError, load_manifest
from shard_format.naming import MANIFEST, TOKENIZERS

# Of the copy, and not of the file that is copied, which has a URL.
_LOCAL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOTDIR)


@dataclasses.dataclass(frozen=True)
class DatasetLocation:
    """A set whose manifest was read.

    Attributes:
        source: Where its shards are read from.
        root: A directory with its manifest, index and tokenizer: the set itself, or copies.
        manifest: Manifest of the set.
        cache_dir: Directory of copies.
        cache_limit: Bytes that all copies there may take; None is half of what is free or its own.
        lease: On the copies; None where there are none.
    """

    source: Place
    root: Path
    manifest: Manifest
    cache_dir: Path
    cache_limit: int | None
    lease: CacheLease | None = None

    @property
    def is_remote(self) -> bool:
        """Whether the shards are at a URL, which TensorFlow cannot read."""
        return local_path(self.source) is None

    @property
    def cache_root(self) -> Path:
        """Directory for copies of this set."""
        return self.cache_dir / self.manifest.root_hash

    def take(
        self, items: Sequence[Item], *, partial: bool = False, needed_for: str = "a disk cache"
    ) -> CacheLease:
        """A lease on items of the cache directory; see `Store.lease`.

        Raises:
            UsageError: They do not fit and all are needed, or it cannot be written to: it may be
                full, or another user's, whose files are read and not written by others.
        """
        try:
            store = Store(self.cache_dir, self.cache_limit)
            return store.lease(items, partial=partial, needed_for=needed_for)
        except OSError as error:
            raise unwritable(error, self.cache_dir) from error


def locate_dataset(
    directory: Directory,
    options: ReadOptions,
) -> DatasetLocation:
    """The set in a directory or at a URL. What is small of a remote one is copied.

    Args:
        directory: Or a URL.
        options: Options with the generation, the split, whose index is copied, and the cache
            directory.

    Raises:
        UsageError: A URL is malformed, or the cache directory has no room.
        ShardSetError: There is no set, or it cannot be reached.
        DamageError: The manifest, or what was copied, is not what was written.
    """
    # Files are opened when they are read; the program may have gone to another directory by then.
    cache_dir = local_place_of(options.cache_dir or default_cache_dir()).absolute()
    cache_limit = None if options.cache_limit is None else int(options.cache_limit)
    source = place_of(directory)
    source = source.absolute() if isinstance(source, Path) else source
    manifest = load_manifest(source, options.generation)
    if isinstance(source, Path):
        return DatasetLocation(source, source, manifest, cache_dir, cache_limit)
    root = cache_dir / manifest.root_hash
    place = DatasetLocation(source, root, manifest, cache_dir, cache_limit)
    text = manifest.to_text().encode()
    # An index in parts is read where it is.
    split = manifest.splits.get(options.split)
    index = [] if split is None or split.index else [manifest.index_file(options.split)]
    names = [*index, *TOKENIZERS.values()]
    files = {name: manifest.files[name] for name in names if name in manifest.files}
    sizes = {MANIFEST: len(text)} | {name: info["bytes"] for name, info in files.items()}
    items = [Item(f"{manifest.root_hash}/{name}", size) for name, size in sizes.items()]
    lease = place.take(items, needed_for="the index of a set at a URL")
    for name, info in files.items():
        try:
            fetch(source, Wanted(name, place.root / name, info["bytes"], info["sha256"]))
        except FileNotFoundError as error:
            raise ShardSetError(missing(str(source / name))) from error
        except OSError as error:
            raise failed(error, str(source / name), cache_dir) from error
    if not is_whole(place.root / MANIFEST, len(text)):
        try:
            storage.write_bytes(place.root / MANIFEST, text)
        except OSError as error:
            raise unwritable(error, cache_dir) from error
    return dataclasses.replace(place, lease=lease)


def failed(error: OSError, file: str, cache_dir: Path) -> UsageError | ShardSetError:
    """What is to be raised where a file could not be copied."""
    of_storage = "://" in str(error.filename)
    if error.errno in _LOCAL_ERRORS and not of_storage:
        return unwritable(error, cache_dir)
    return ShardSetError(unreachable(file, error))


def unreachable(place: str, error: OSError) -> str:
    """The message that a remote file cannot be read."""
    reason = error.strerror or error
    return f"Cannot read {place}: '{reason}'. Check the URL, the credentials and the connection."


def missing(file: str) -> str:
    """The message that a file of a set is not there."""
    return (
        f"No file {file}, which the manifest names. Copy the whole set, or run 'shardmill verify' "
        "to see what is missing."
    )


def unwritable(error: OSError, cache_dir: Path) -> UsageError:
    """The error that a cache directory cannot be used."""
    return UsageError(
        f"Cannot write to the cache directory {cache_dir}: {error}. Pass another cache_dir or, for "
        'a set that is not at a URL, cache="off".'
    )
