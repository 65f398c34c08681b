"""`shardmill export-index`: the index of a shard set for other readers of TFRecord."""

from __future__ import annotations

import click

from cli.places import FOLDER, PLACE
from foundation.storage import Place


@click.command("export-index")
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option(
    "--format",
    "name",
    default="dali",
    show_default=True,
    metavar="NAME",
    help="For which reader; dali is the only one.",
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=FOLDER,
    help="Where the files go (default: DIR/index).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def export_index(directory: Place, name: str, out: Place | None, as_json: bool) -> None:
    """Write one index file per shard, for readers that want the place of every record.

    \b
    dali   lines of "OFFSET SIZE", as NVIDIA DALI's tfrecord2idx writes them:
           fn.readers.tfrecord(path=sorted(glob("set/*-train.tfrecord-*")),
                               index_path=sorted(glob("set/index/*-train.tfrecord-*.idx")), ...)

    They are made from the index of the set, and no shard is read. They are no part of the set:
    verify ignores them, and building the set again removes them.

    \b
    Examples:
      shardmill export-index set
      shardmill export-index set --format dali --out idx
      shardmill export-index set --json
    """
    import reader
    from cli.console import bar_if_long, print_json, say
    from foundation.wording import counted

    with bar_if_long("export"):
        done = reader.export_index(directory, name, out)
    if as_json:
        print_json(
            {
                "format": name,
                "folder": str(done.folder),
                "records": done.records,
                "root_hash": done.root_hash,
                "splits": {split: {"files": len(files)} for split, files in done.files.items()},
            }
        )
        return
    files = counted(sum(map(len, done.files.values())), "file")
    say(f"written    {files}, {counted(done.records, 'record')}, to {done.folder}")
