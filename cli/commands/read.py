"""`shardmill read`: measure how fast a shard set is read, without a model."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cli.options import click_options
from cli.places import PLACE
from cli.storage_speed import storage_line
from foundation.storage import Place
from reader.options import ReadOptions

if TYPE_CHECKING:
    from reader import ReadRate, StageTimes, Stream
    from shard_format import Manifest

# The time to measure one stage, relative to the whole; there are about ten measurements.
_STAGE_SHARE = 0.2
_BATCH = 64
_IMAGE_SIZE = 224  # pixels: the input of most networks for images


# The options of `reader.load` that are flags of this command.
_OPTIONS = (
    *("split", "generation", "where", "batch_size", "image_size", "max_tokens", "pad", "buckets"),
    *("augment", "label"),
    *("features", "list_size", "synonyms", "normalize", "shuffle", "cache", "cache_stage"),
    *("cache_dir", "cache_limit", "on_corrupt"),
)


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--seconds", default=10.0, show_default=True, metavar="S", help="Seconds to read.")
@click_options(
    ReadOptions,
    _OPTIONS,
    defaults={"batch_size": None, "augment": "standard"},
    shown={"image_size": str(_IMAGE_SIZE), "batch_size": f"{_BATCH}, or all of fewer records"},
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def read(directory: Place, seconds: float, as_json: bool, **options: Any) -> None:
    """Measure how fast a shard set is read, decoded, augmented and batched.

    First all stages together on all cores; then every stage alone, on the same records: its CPU
    time, and the rate at which the cores could do nothing else.

    \b
    Examples:
      shardmill read set
      shardmill read set --seconds 30 --batch-size 256 --cache off
      shardmill read reviews --max-tokens 256 --buckets 8 --augment none
      shardmill read s3://bucket/set --cache off
    """
    from shard_format import load_manifest

    # A wrong path is reported at once, not after TensorFlow was loaded.
    manifest = load_manifest(directory, options["generation"])
    options["batch_size"] = _batch_size(manifest, directory, options)
    if manifest.schema.record_type == "image" and options["image_size"] is None:
        options["image_size"] = _IMAGE_SIZE
    measured = _measure(directory, seconds, options)
    stream = measured.stream
    if not as_json:
        _print_stages(measured.stages, directory)
        _print_rate(measured, options["split"])
        return
    from cli.console import print_json

    tokens = stream.info.tokens
    print_json(
        dataclasses.asdict(measured.rate)
        | {"split": options["split"], "cache": stream.info.cache, "records": measured.records}
        | {"cache_stage": stream.info.cache_stage, "skipped": stream.skipped}
        | ({"padding_share": tokens.padding_share} if tokens else {})
        | _stages_as_json(measured.stages)
    )


def _batch_size(manifest: Manifest, directory: Place, options: dict[str, Any]) -> int:
    """The batch size that was asked for, or one that the split has records for.

    Raises:
        UsageError: The split has fewer records.
    """
    from shard_format import UsageError

    split, asked = options["split"], options["batch_size"]
    records = manifest.splits[split].records if split in manifest.splits else 0
    if asked is None:
        return min(_BATCH, records or _BATCH)
    if 0 < records < asked:  # the reader would refuse it too, but name no flag
        raise UsageError(
            f"--batch-size {asked} exceeds the {records} records of {split!r} in {directory}. "
            f"Pass {records} or less."
        )
    return int(asked)


class _Measured(NamedTuple):
    stream: Stream
    records: int  # with those of the first batch
    rate: ReadRate
    stages: StageTimes


def _measure(directory: Place, seconds: float, options: dict[str, Any]) -> _Measured:
    """Reads a stream with progress bars, then every stage of it."""
    from cli.console import Bars, native_noise_kept
    from cli.logs import quiet_tensorflow

    quiet_tensorflow()
    with native_noise_kept() as stderr, Bars(stderr) as bars, bars.ends_at_interrupt():
        bars.update("load", 0, None, "", "TensorFlow and the index")
        import reader

        stream = reader.load(
            directory,
            **options,
            streams=1 if options["buckets"] > 1 else None,  # as train does: one process reads
            on_cached=lambda done, total: bars.update("cache", done, total, "bytes"),
        )
        bars.finish("load")
        done = 0

        def show(records: int) -> None:
            nonlocal done
            done += records
            bars.update("read", done, None, "records")

        rate = reader.measure(stream, seconds, show)
        bars.finish("read")
        for copies in stream.copies:
            copies.wait()
        count = itertools.count()
        stages = reader.measure_stages(
            stream,
            seconds * _STAGE_SHARE,
            lambda name: bars.update("stages", next(count), None, "", name),
        )
        bars.finish("stages")
    return _Measured(stream, done, rate, stages)


def _print_rate(measured: _Measured, split: str) -> None:
    from cli.console import say

    stream, rate = measured.stream, measured.rate
    per_token = padding = store = skipped = ""
    tokens = stream.info.tokens
    if stream.skipped:
        noun = "record" if stream.skipped == 1 else "records"
        skipped = f"skipped    {stream.skipped:,} damaged {noun}; run 'shardmill verify'\n"
    if tokens and rate.tokens_per_second is not None:
        per_token = f"{rate.tokens_per_second:,.0f} tokens/s, "
        padding = f"padding    {tokens.padding_share:.1%} of the positions of a batch\n"
    if rate.requests_per_second is not None:
        store = (
            f"requests   {rate.requests_per_second:,.1f} requests/s to the store, "
            f"{rate.received_megabytes_per_second:,.1f} MB/s from it\n"
        )
    say(
        f"read       {measured.records:,} records of {split} in {rate.seconds:.1f} s, "
        f"first batch after {rate.first_batch_seconds:.2f} s\n"
        f"rate       {rate.records_per_second:,.0f} records/s, {per_token}"
        f"{rate.megabytes_per_second:,.1f} MB/s as stored\n"
        f"{padding}{store}{skipped}"
        f"cache      {stream.info.cache}: {stream.info.cache_reason}"
    )


def _stages_as_json(times: StageTimes) -> dict[str, Any]:
    """Seconds per record, of CPU time over all threads, and of the chain up to every stage."""
    return {
        "slowest_stage": times.slowest.name,
        "stages": [dataclasses.asdict(stage) for stage in times.stages],
        "storage": dataclasses.asdict(times.storage) | {"reads_files": times.reads_files},
        "records_per_second_from_memory": 1 / times.chain.seconds,
    }


def _print_stages(times: StageTimes, directory: Place) -> None:
    from cli.console import bar, say, stdout, table
    from foundation.machine import usable_cores

    cores = usable_cores()
    columns = ("stage", "CPU us/record", f"records/s on {cores:g} cores", "time")
    rows = table("Stages, each by itself", *columns, right=columns[1:3])
    most = times.slowest.cpu_seconds
    for stage in times.stages:
        mark = " slowest" if stage is times.slowest else ""
        alone = f"{cores / stage.cpu_seconds:,.0f}" if stage.cpu_seconds else ""
        microseconds = f"{1e6 * stage.cpu_seconds:,.1f}"
        rows.add_row(stage.name, microseconds, alone, bar(stage.cpu_seconds / most) + mark)
    stdout().print(rows)
    unused = "" if times.reads_files else "; read once, then from memory"
    say(f"{storage_line(times.storage, directory)}{unused}")
