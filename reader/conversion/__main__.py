"""A process that converts one piece after another; `reader.conversion.job` starts it."""

from __future__ import annotations

import contextlib
import sys
import traceback
from multiprocessing.connection import Connection

from foundation.errors import file_error
from reader.conversion.worker import ConversionFailure, ConversionTask, Worker
from shard_format import ShardmillError


def main() -> None:
    """Argument: descriptor of the connection to the launcher."""
    connection = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError, ConnectionError):  # the launcher closed its end
        task: ConversionTask = connection.recv()
        worker: Worker | None = None
        while True:
            piece, rows = connection.recv()
            try:
                worker = worker or Worker(task)
                connection.send(worker.convert(piece, rows))
            except ShardmillError as error:
                connection.send(ConversionFailure(str(error), type(error).__name__))
            except OSError as error:
                connection.send(
                    ConversionFailure(str(file_error(error, str(task.out))), "InputError")
                )
            except Exception:
                connection.send(ConversionFailure(traceback.format_exc()))


if __name__ == "__main__":
    main()
