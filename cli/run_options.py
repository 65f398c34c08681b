"""Flags of commands that take a run of `shardmill train`; others do not load what they name."""

from __future__ import annotations

import click

from inference.export.options import EPOCH_NAMES

EPOCH = click.option(
    "--epoch",
    type=click.Choice(EPOCH_NAMES),
    default="last",
    show_default=True,
    help="Of a run: the model of the last or the best epoch.",
)
