"""`shardmill inspect`: describe a shard set without reading a shard."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import click

from cli.places import PLACE

if TYPE_CHECKING:
    from foundation.storage import Place
    from shard_format import Manifest


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--all", "show_all", is_flag=True, help="Show everything, which may be some screens.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def inspect(directory: Place, show_all: bool, as_json: bool) -> None:
    """Show ledger, splits, classes and duplicates of a shard set, and features beyond the usual.

    With --all also every class, statistics, options and examples of what was rejected; for text
    also languages, encodings, vocabulary and how full packed sequences are.

    \b
    Examples:
      shardmill inspect set
      shardmill inspect set --all
      shardmill inspect set --json
    """
    from beam_jobs.set_warnings import set_warnings
    from cli.console import print_json, say
    from cli.dropped import dropped_json, print_duplicates
    from cli.ledger import print_ledger, print_warnings
    from cli.statistics import print_class_range
    from cli.text_statistics import text_json
    from shard_format import load_build, load_manifest

    manifest, build = load_manifest(directory), load_build(directory)
    if as_json:
        statistics = {name: dict(split.statistics) for name, split in manifest.splits.items()}
        print_json(
            manifest.summary()
            | {
                "name": manifest.name,
                "schema": manifest.schema.to_json(),
                "config": dict(manifest.config),
                "statistics": statistics,
                "warnings": set_warnings(manifest, build),
            }
            | text_json(directory, manifest)
            | dropped_json(directory, manifest)
        )
        return
    if show_all:
        _print_details(directory, manifest)
    if show_all or manifest.schema.kept:
        _print_features(manifest)
    print_ledger(manifest, build)
    print_class_range(manifest)
    print_duplicates(directory, manifest)
    print_warnings(manifest, build)
    if not show_all:
        say(f"more       {shlex.join(['shardmill', 'inspect', str(directory), '--all'])}")


def _print_features(manifest: Manifest) -> None:
    """Prints what an example has, in the words of --keep-columns."""
    from cli.console import print_table, table

    features = table("Features", "feature", "kind", "classes", right=("classes",))
    for one in manifest.schema.features:
        classes = f"{len(one.class_names):,}" if one.class_names else ""
        features.add_row(one.name, one.form, classes)
    print_table(features)


def _print_details(directory: Place, manifest: Manifest) -> None:
    """Prints every class, statistics, options and examples of what was rejected."""
    from cli.console import print_table, table
    from cli.dropped import print_quarantine
    from cli.statistics import print_channels, print_classes, print_statistics
    from cli.text_statistics import print_cleaning, print_text

    print_classes(manifest)
    print_statistics(manifest)
    print_channels(manifest)
    print_text(directory, manifest)
    steps = print_cleaning(manifest)
    options = table("Options", "option", "value")
    for option, value in manifest.config.items():
        if option != "clean" or not steps:
            options.add_row(option, json.dumps(value))
    print_table(options)
    print_quarantine(directory, manifest)
