"""`shardmill repair`: write the damaged files of a shard set again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.places import PLACE

if TYPE_CHECKING:  # pyarrow and Beam take a while to import
    from beam_jobs.repair import Repaired
    from foundation.storage import Place

_SHOWN_RECORDS = 50  # on a terminal; --json has all


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.argument("sources", nargs=-1, metavar="[SRC]...")
@click.option(
    "--delete-extra",
    is_flag=True,
    help="Delete files and folders in DIR that are not part of the set.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def repair(directory: Place, sources: tuple[str, ...], delete_extra: bool, as_json: bool) -> None:
    """Write what 'shardmill verify' finds damaged again, byte for byte, and nothing else.

    Whole records of a damaged shard are kept; the others are read from SRC, or from the sources and
    the --staging folder that build.json names. A damaged index, quarantine or tokenizer needs a
    whole build next to the set. Every file is compared with the manifest before it takes its place.
    If records cannot be had, they are named, their shards stay as they are, and the exit code is 4.
    A repair that is killed is completed by the same command.

    \b
    Examples:
      shardmill repair set
      shardmill repair set /mnt/backup/photos
      shardmill repair set --delete-extra
    """
    from beam_jobs.repair import repair as mend
    from cli.console import Bars, native_noise_kept, print_json, say
    from foundation.wording import counted
    from shard_format import DamageError

    with native_noise_kept() as real, Bars(real) as bars:

        def show(stage: str, done: int, total: int) -> None:
            unit = "bytes" if stage in ("verify", "stage") else "records"
            bars.update_often(stage, done, total, unit)

        done = mend(
            directory, sources, delete_extra=delete_extra, on_progress=show, on_note=bars.note
        )
    if as_json:
        print_json(_as_json(done))
    else:
        _say(done)
    if done.lost:
        raise DamageError(
            f"{counted(len(done.lost), 'record')} of {directory} cannot be had. Name a SRC that "
            "has them, or restore the files from a copy."
        )
    files = [one for one in done.left if not one.is_extra]
    if files:
        why = f": {done.reason}" if done.reason else ""
        raise DamageError(
            f"{counted(len(files), 'file')} of {directory} cannot be had{why}. Name the SRC of the "
            "build, or restore the files from a copy."
        )
    if done.left:
        raise DamageError(
            f"{directory} is whole, but has {counted(len(done.left), 'extra file')}. Move them out "
            "of the folder, or pass --delete-extra."
        )
    if not as_json:
        say(f"root hash  {done.manifest.root_hash}")


def _say(done: Repaired) -> None:
    from cli.console import say

    for file in done.repaired:
        say(f"repaired   {file}")
    for file in done.deleted:
        say(f"deleted    {file}")
    for one in done.lost[:_SHOWN_RECORDS]:
        say(f"lost       {one.record_id!r}, at byte {one.offset} of {one.file}: {one.why}")
    if len(done.lost) > _SHOWN_RECORDS:
        say(f"and {len(done.lost) - _SHOWN_RECORDS:,} more records; --json lists all")
    for damage in done.left:
        say(f"left       {damage.file}: {damage.problem}")
    if not done.repaired and not done.deleted and not done.left:
        say("intact     nothing to repair")


def _as_json(done: Repaired) -> dict[str, Any]:
    return done.manifest.summary() | {
        "intact": not done.left,
        "repaired": done.repaired,
        "deleted": done.deleted,
        "lost": [one._asdict() for one in done.lost],
        "left": [{"file": one.file, "problem": one.problem} for one in done.left],
        "reason": done.reason or None,
    }
