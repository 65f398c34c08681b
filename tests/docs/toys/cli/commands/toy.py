from __future__ import annotations

import click


@click.command()
@click.argument("name")
def toy(name: str) -> None:
    """Make a toy."""
    click.echo(f"a toy for {name}")
