"""`shardmill verify`: check that every byte of a shard set is as it was written."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import click

from cli.places import PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from shard_format.storage import Place


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Files to read in parallel.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def verify(directory: Place, workers: int | None, as_json: bool) -> None:
    """Check every file of a shard set against its manifest: checksums and counts.

    Prints damage by file, byte offset and record; the exit code is then 4.

    \b
    Examples:
      shardmill verify set
      shardmill verify set --json
    """
    from cli.console import Bars, print_json, say
    from shard_format import DamageError, load_manifest
    from shard_format.verify import verify as check
    from shard_format.wording import counted, format_bytes

    manifest = load_manifest(directory)
    shard_bytes = sum(split.bytes for split in manifest.splits.values())
    total = shard_bytes + sum(info["bytes"] for info in manifest.files.values())
    done, lock = 0, threading.Lock()
    with Bars() as bars:

        def show(size: int) -> None:
            nonlocal done
            with lock:
                done += size
                bars.update("verify", done, total, "bytes")

        manifest, damages = check(directory, workers=workers, on_bytes=show)
    if as_json:
        found = [{"file": damage.file, "problem": damage.problem} for damage in damages]
        print_json(manifest.summary() | {"intact": not damages, "damages": found})
    else:
        for damage in damages:
            say(f"{damage.file}: {damage.problem}")
    if damages:
        raise DamageError(
            f"{directory} has {counted(len(damages), 'damaged file')}. Restore from a copy, or "
            "remove the folder and build the set again: the same input and options give the same "
            "root hash."
        )
    if not as_json:
        files = sum(len(split.shards) for split in manifest.splits.values()) + len(manifest.files)
        records = sum(split.records for split in manifest.splits.values())
        say(
            f"intact     {files} files, {format_bytes(total)}, {records:,} records\n"
            f"root hash  {manifest.root_hash}"
        )
