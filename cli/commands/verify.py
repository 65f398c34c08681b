"""`shardmill verify`: is every byte of a shard set the one that was written?"""

from __future__ import annotations

import threading
from pathlib import Path

import click


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Files read at once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def verify(directory: Path, workers: int | None, as_json: bool) -> None:
    """Check every file of a shard set against its manifest: checksums and counts.

    Damage is named by file, byte offset and record; then the exit code is 4.

    \b
    Examples:
      shardmill verify set
      shardmill verify set --json
    """
    from cli.console import Bars, print_json, say
    from shard_format import DamageError, load_manifest
    from shard_format.verify import verify as check
    from shard_format.wording import format_bytes

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
            f"every file must be as it was written, got {len(damages)} damaged in {directory}. "
            "Restore these files from a copy; or remove the folder and build the set again, and "
            "the root hash will tell whether it is the same."
        )
    if not as_json:
        files = sum(len(split.shards) for split in manifest.splits.values()) + len(manifest.files)
        records = sum(split.records for split in manifest.splits.values())
        say(
            f"intact     {files} files, {format_bytes(total)}, {records:,} records\n"
            f"root hash  {manifest.root_hash}"
        )
