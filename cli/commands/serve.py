"""`shardmill serve`: decode and augment for trainers on other machines."""

from __future__ import annotations

from pathlib import Path

import click

from cli.places import LOCAL_FOLDER, PLACE
from foundation.storage import Place


@click.command()
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--workers", type=int, default=2, show_default=True, metavar="N", help="Processes.")
@click.option(
    "--host",
    metavar="NAME",
    help="Name or address of this machine for trainers and other workers.  [default: "
    "localhost; with --join the address that the other machine sees]",
)
@click.option(
    "--port",
    type=int,
    default=5050,
    show_default=True,
    metavar="P",
    help="Port of the service; its workers listen on the next N ports.",
)
@click.option(
    "--join",
    metavar="ADDRESS",
    help="Start workers only, for the service at that address on another machine.",
)
@click.option(
    "--journal",
    type=LOCAL_FOLDER,
    metavar="FOLDER",
    help="Keep the progress of trainers there, so that they continue after a restart.",
)
def serve(
    directory: Place,
    workers: int,
    host: str | None,
    port: int,
    join: str | None,
    journal: Path | None,
) -> None:
    """Decode and augment a shard set for trainers, with the CPUs of this and other machines.

    It runs until it is interrupted. Trainers use it with

    \b
      reader.load(DIR, batch_size=128, ..., service="grpc://HOST:5050")

    DIR must be the same set under the same path on the machines of trainers and of all workers.
    There is no authentication and no encryption: whoever reaches the ports may read files and run
    TensorFlow graphs on this machine. They are open on every network interface, since TensorFlow
    offers no choice, whatever --host says. Use a private network or a firewall.

    \b
    Examples:
      shardmill serve /data/set --workers 8 --host 10.0.0.5
      shardmill serve /data/set --workers 8 --join grpc://10.0.0.5:5050    on a second machine
    """
    from cli.console import say
    from cli.logs import quiet_tensorflow
    from shard_format import UsageError, load_manifest

    if not isinstance(directory, Path):
        raise UsageError(
            f"shardmill serve reads sets in directories only, not {directory}. Copy the set to a "
            "path that trainers and workers share, or read it with reader.load without service."
        )
    load_manifest(directory)  # a wrong path is reported at once, not after TensorFlow was loaded
    quiet_tensorflow()
    from reader.service.address import local_host, parse_address
    from reader.service.processes import ServeOptions
    from reader.service.processes import serve as run

    dispatcher = None if join is None else parse_address(join, "shardmill serve")
    options = ServeOptions(
        directory=directory.absolute(),
        host=host or local_host(dispatcher),
        port=port,
        workers=workers,
        join=dispatcher,
        journal=journal,
    )
    run(options, say)
    say("stopped")
