"""`shardmill inspect`: describe a shard set without reading a shard."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def inspect(directory: Path, as_json: bool) -> None:
    """Show ledger, splits, classes, statistics, duplicates and options of a shard set.

    For text also languages, encodings, vocabulary and how full packed sequences are.

    \b
    Examples:
      shardmill inspect set
      shardmill inspect set --json
    """
    import json

    from cli.console import print_json, stdout, table
    from cli.dropped import dropped_json, print_dropped
    from cli.ledger import print_ledger
    from cli.statistics import print_channels, print_classes, print_statistics
    from cli.text_statistics import print_cleaning, print_text, text_json
    from shard_format import load_build, load_manifest

    manifest = load_manifest(directory)
    if as_json:
        statistics = {name: dict(split.statistics) for name, split in manifest.splits.items()}
        print_json(
            manifest.summary()
            | {
                "name": manifest.name,
                "schema": manifest.schema.to_json(),
                "config": dict(manifest.config),
                "statistics": statistics,
            }
            | text_json(directory, manifest)
            | dropped_json(directory, manifest)
        )
        return
    print_classes(manifest)
    print_statistics(manifest)
    print_channels(manifest)
    print_text(directory, manifest)
    steps = print_cleaning(manifest)
    options = table("Options", "option", "value")
    for option, value in manifest.config.items():
        if option != "clean" or not steps:
            options.add_row(option, json.dumps(value))
    stdout().print(options)
    stdout().print()
    print_dropped(directory, manifest)
    print_ledger(manifest, load_build(directory))
