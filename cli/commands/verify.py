"""`shardmill verify`: check that every byte of a shard set is as it was written."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import override

from cli.places import PLACE

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place
    from shard_format import Damage
    from shard_format.verification import Verified


_COUNTS = ("files_read", "bytes_read", "files", "bytes")


class _Share(click.ParamType[Any]):
    """A share as "1%" or "0.01", above 0 and at most 1."""

    name = "share"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        percent = value.endswith("%")
        try:
            share = float(value.removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            self.fail(f"{value!r} is no share. Write 1% or 0.01, at most 100%.", param, ctx)
        return share


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--quick", is_flag=True, help="Check names, sizes and the manifest; read no data.")
@click.option(
    "--sample",
    type=_Share(),
    metavar="SHARE",
    help="Read whole files with at least this share of the bytes, such as 1%; of others check "
    "names and sizes.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Which files --sample chooses.  [default: 0]",
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Files to read in parallel.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def verify(
    directory: Place,
    quick: bool,
    sample: float | None,
    seed: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """Check every file of a shard set against its manifest: checksums, counts, extra files.

    Checked are manifest.json, shards, index, class names and other metadata, tokenizer, quarantine,
    duplicates, croissant.json and its tables, of every generation; by checksums of their own
    build.json, report.html and README.md (a note says if that was edited); by one in build.json
    fingerprints/, which sets of earlier versions lack (a note says so). Left out are index/*.idx of
    'export-index', and folders of unfinished appends. Prints damage by file, byte offset and
    record; the exit code is then 4. What a killed command has left is no damage: a note says how it
    is completed or deleted.

    \b
    Examples:
      shardmill verify set
      shardmill verify set --quick
      shardmill verify set --sample 1% --seed 7
      shardmill verify set --json
    """
    from cli.console import print_json, say
    from foundation.wording import counted
    from shard_format import DamageError, Scope, UsageError, naming

    if quick and sample is not None:
        raise UsageError("--quick reads no data, so there is nothing to --sample. Leave one out.")
    scope = Scope(0.0 if quick else sample or 1.0, seed)
    try:
        verified = run_with_bar(directory, scope, workers)
    except DamageError as error:
        if as_json:
            lost = {"file": naming.MANIFEST, "problem": str(error), "records": []}
            print_json({"intact": False, "damages": [lost], "root_hash": None})
        raise DamageError(f"{error} {_try_repair(directory)}") from error
    damages = verified.damages
    if as_json:
        checked = {
            "mode": "quick" if quick else "sample" if sample else "full",
            "seed": seed,
            **{name: getattr(verified, name) for name in _COUNTS},
        }
        report: dict[str, Any] = {"intact": not damages, "notes": verified.notes}
        report["damages"] = [_as_json(one) for one in damages]
        print_json(verified.manifest.summary() | report | {"checked": checked})
    else:
        for damage in damages:
            say(f"{damage.file}: {damage.problem}")
        for note in verified.notes:
            say(f"note       {note}")
    files = len({damage.file for damage in damages if not damage.is_extra})
    extra = sum(damage.is_extra for damage in damages)
    if files:
        raise DamageError(
            f"{directory} has {counted(files, 'damaged file')}. {_try_repair(directory)}"
        )
    if extra:
        raise DamageError(
            f"{directory} is whole, but has {counted(extra, 'extra file')}. Move them out of the "
            f"folder, or run: shardmill repair {directory} --delete-extra"
        )
    if not as_json:
        say(_summary(verified, scope))


def run_with_bar(directory: Place, scope: Any, workers: int | None) -> Verified:
    """Verifies a set and shows the bytes that were read."""
    from cli.console import Bars
    from shard_format.expected_files import ChosenFiles, ExpectedFiles, stored_files
    from shard_format.verification import manifest_to_verify, verify_set

    manifest = manifest_to_verify(directory)
    expected = ExpectedFiles(manifest, stored_files(directory, manifest).expected)
    total = ChosenFiles(expected, scope.share, scope.seed).bytes
    done, lock = 0, threading.Lock()
    with Bars() as bars:

        def show(size: int) -> None:
            nonlocal done
            with lock:
                done += size
            bars.update_often("verify", done, total, "bytes")

        return verify_set(directory, scope, workers=workers, on_bytes=show)


def _as_json(damage: Damage) -> dict[str, Any]:
    return {
        "file": damage.file,
        "problem": damage.problem,
        "extra": damage.is_extra,
        "same_as": damage.same_as or None,
        "records": [dataclasses.asdict(record) for record in damage.records],
    }


def _try_repair(directory: Place) -> str:
    return (
        f"Run 'shardmill repair {directory}' (with SRC... if the corpus has moved), or restore the "
        "files from a copy."
    )


def _summary(verified: Verified, scope: Any) -> str:
    from foundation.wording import format_bytes

    splits = verified.manifest.splits.values()
    records = sum(split.records for split in splits)
    whole = f"{verified.files} files, {format_bytes(verified.bytes)}, {records:,} records"
    root = f"root hash  {verified.manifest.root_hash}"
    if scope.share >= 1:
        return f"intact     {whole}\n{root}"
    if scope.share == 0:
        return f"sizes      {whole}; no data was read\n{root}"
    read = f"{verified.files_read} of {verified.files} files, {format_bytes(verified.bytes_read)}"
    share = verified.bytes_read / max(1, verified.bytes)
    return (
        f"intact     {read} ({share:.1%}), chosen by --seed {scope.seed}\n"
        f"sizes      {whole}; the rest was not read\n{root}"
    )
