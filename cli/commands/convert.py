"""`shardmill convert`: a shard set in the format of another program."""

from __future__ import annotations

import click

from cli.places import FOLDER, PLACE
from foundation.storage import Place


@click.command()
@click.argument("directory", metavar="SET", type=PLACE)
@click.option("--to", required=True, metavar="FORMAT", help="One of the formats above.")
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=FOLDER,
    help="Where the files go: an empty folder, one that does not exist, or a URL.",
)
@click.option(
    "--where",
    metavar="CONDITION",
    help="Convert the records that a condition on columns of the index selects, such as "
    "\"words > 20 and language == 'en'\".",
)
@click.option(
    "--shard-size",
    default="128MiB",
    show_default=True,
    metavar="SIZE",
    help="Size of the records of one file.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes (default: one for each core).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def convert(
    directory: Place,
    to: str,
    out: Place,
    where: str | None,
    shard_size: str,
    workers: int | None,
    as_json: bool,
) -> None:
    """Write all records of a set, with all features, in the format of another program.

    \b
    webdataset    SPLIT-000000.tar                    shardmill[webdataset]
    mds           SPLIT/00000/shard.00000.mds         shardmill[mds], MosaicML Streaming
    array_record  NAME-SPLIT.array_record-*-of-*      shardmill[array_record], for TFDS and Grain
    parquet       data/SPLIT-*-of-*.parquet           for Hugging Face datasets and others
    litdata       SPLIT/chunk-0-0.bin                 shardmill[litdata]
    files         SPLIT/CLASS/000000000.jpg           and metadata.jsonl; of texts JSON Lines

    Records keep their order and their ids, and images are copied as they are stored. Each has the
    checksum of its example in the set (record_crc32c); conversion.json has the root hash of the set
    and the SHA-256 of the files. If the command is interrupted, run it again; it resumes.

    \b
    Examples:
      shardmill convert set --to webdataset --out tars
      shardmill convert set --to parquet --out s3://bucket/hub --where "width >= 512"
      shardmill convert set --to files --out folders --json
    """
    import reader
    from cli.console import Bars, print_json, say
    from foundation.wording import counted, format_bytes, parse_size

    size = parse_size("--shard-size", shard_size)
    with Bars() as bars:
        done = reader.convert(
            directory,
            to,
            out,
            where=where,
            shard_bytes=size,
            workers=workers,
            on_progress=lambda done, total: bars.update("convert", done, total, "records"),
        )
    if as_json:
        print_json(
            {
                "to": to,
                "folder": str(done.folder),
                "root_hash": done.root_hash,
                "splits": done.splits,
                "resumed": done.resumed,
            }
        )
        return
    if done.resumed:
        say(f"resumed    {counted(done.resumed, 'file')} had been written before")
    for split, written in done.splits.items():
        files = counted(written["files"], "file")
        amount = f"{counted(written['records'], 'record')} in {files}"
        say(f"written    {split}: {amount}, {format_bytes(written['bytes'])}")
    say(f"to         {done.folder}")
