"""A shard set opened by path or URL: where its shards are, and copies of its small files."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from reader.cache.copying import Wanted, fetch
from reader.cache.inventory import Item
from reader.cache.origins import (
    DirectoryOrigin,
    Origin,
    RemoteOrigin,
    connect,
    is_remote,
    local_directory,
    unreachable,
)
from reader.cache.resources import default_cache_dir
from reader.cache.retrying import retried
from reader.cache.store import Lease, Store
from reader.options import ReadOptions
from shard_format import Manifest, ShardSetError, UsageError, load_manifest, parse_manifest
from shard_format.naming import MANIFEST, TOKENIZERS, index_file

# What PyArrow says of a place that it cannot read has no number, or another one.
_LOCAL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOTDIR)


@dataclasses.dataclass(frozen=True)
class DatasetLocation:
    """A set whose manifest was read.

    Attributes:
        origin: Where its shards are read from.
        root: A directory with its manifest, index and tokenizer: the set itself, or copies.
        manifest: Of the set.
        cache_dir: Directory of copies.
        cache_limit: Bytes that all copies there may take; None is half of what is free or its own.
        lease: On the copies; None where there are none.
    """

    origin: Origin
    root: Path
    manifest: Manifest
    cache_dir: Path
    cache_limit: int | None
    lease: Lease | None = None

    @property
    def is_remote(self) -> bool:
        """Whether only PyArrow can read the shards."""
        return isinstance(self.origin, RemoteOrigin)

    @property
    def cache_root(self) -> Path:
        """Directory for copies of this set."""
        return self.cache_dir / self.manifest.root_hash

    def take(
        self, items: Sequence[Item], *, partial: bool = False, needed_for: str = "a disk cache"
    ) -> Lease:
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
    directory: str | os.PathLike[str],
    options: ReadOptions,
) -> DatasetLocation:
    """The set in a directory or at a URL. What is small of a remote one is copied.

    Args:
        directory: Or a URL.
        options: Of them the split, whose index is copied, and the cache directory.

    Raises:
        UsageError: A URL is malformed, or the cache directory has no room.
        ShardSetError: There is no set, or it cannot be reached.
        DamageError: The manifest, or what was copied, is not what was written.
    """
    # Files are opened when they are read; the program may have gone to another directory by then.
    cache_dir = Path(options.cache_dir or default_cache_dir()).absolute()
    cache_limit = None if options.cache_limit is None else int(options.cache_limit)
    if not is_remote(directory):
        root = local_directory(directory).absolute()
        return DatasetLocation(
            DirectoryOrigin(root), root, load_manifest(root), cache_dir, cache_limit
        )
    origin = connect(str(directory))
    raw = _read_manifest(origin)
    manifest = parse_manifest(raw, origin.name(MANIFEST))
    place = DatasetLocation(
        origin, cache_dir / manifest.root_hash, manifest, cache_dir, cache_limit
    )
    files: dict[str, dict[str, Any]] = {}
    files[MANIFEST] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    for file in (index_file(options.split), *TOKENIZERS.values()):
        if file in manifest.files:
            files[file] = dict(manifest.files[file])
    items = [Item(f"{manifest.root_hash}/{file}", info["bytes"]) for file, info in files.items()]
    lease = place.take(items, needed_for="the index of a set at a URL")
    for file, info in files.items():
        copy_now(origin, Wanted(file, place.root / file, info["bytes"], info["sha256"]), cache_dir)
    return dataclasses.replace(place, lease=lease)


def copy_now(origin: Origin, wanted: Wanted, cache_dir: Path) -> None:
    """Makes a copy that cannot be done without.

    Raises:
        ShardSetError: The file cannot be read.
        UsageError: The copy cannot be written.
        DamageError: The file is not what was written.
    """
    try:
        fetch(origin, wanted)
    except FileNotFoundError as error:
        raise ShardSetError(missing(origin.name(wanted.file))) from error
    except OSError as error:
        raise failed(error, origin.name(wanted.file), cache_dir) from error


def failed(error: OSError, file: str, cache_dir: Path) -> UsageError | ShardSetError:
    """What is to be raised where a file could not be copied."""
    if error.errno in _LOCAL_ERRORS:
        return unwritable(error, cache_dir)
    return ShardSetError(unreachable(file, error))


def missing(file: str) -> str:
    """The message that a file of a set is not there."""
    return (
        f"No file {file}, which the manifest names. Copy the whole set, or run 'shardmill verify' "
        "to see what is missing."
    )


def unwritable(error: OSError, cache_dir: Path) -> UsageError:
    """The error that a cache directory cannot be used."""
    return UsageError(
        f"Cannot write to the cache directory {cache_dir}: {error}. Pass another cache_dir, or "
        'cache="off".'
    )


def _read_manifest(origin: RemoteOrigin) -> bytes:
    def read() -> bytes:
        with origin.open(MANIFEST) as file:
            return file.read()

    try:
        return retried(read, (OSError,))
    except FileNotFoundError as error:
        raise ShardSetError(
            f"No {MANIFEST} at {origin.url}: it is not a shard set. Check the URL."
        ) from error
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"{origin.url} does not name a bucket or host and a path ({error}). Check the URL."
        ) from error
    except OSError as error:
        raise ShardSetError(unreachable(origin.url, error)) from error
