"""Launches the processes of a run, and launches them again when one was lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from foundation.errors import UsageError
from trainer.checkpointing.run_dir import require_free
from trainer.errors import WORKERS_LOST
from trainer.launching.gpus import divided_gpus
from trainer.launching.server_group import ServerGroup
from trainer.launching.worker_group import WorkerGroup
from trainer.options import TrainOptions
from trainer.workers.cluster import VARIABLE

_GROUPS: dict[str, type[WorkerGroup | ServerGroup]] = {
    "multi_worker": WorkerGroup,
    "parameter_server": ServerGroup,
}


class Launched(NamedTuple):
    """The end of a run in several processes.

    Attributes:
        exit_code: Exit code of the run.
        has_result: Whether the process with the terminal has printed its result or its error.
    """

    exit_code: int
    has_result: bool


def launch(
    options: TrainOptions, strategy: str, program: Sequence[str], on_line: Callable[[str], None]
) -> Launched:
    """Runs a command in all processes of a run until they have ended.

    Args:
        options: Options of the run.
        strategy: From `strategy_to_launch`.
        program: The command.
        on_line: Function called with a line for each process that ends or starts again.

    Raises:
        UsageError: There are GPUs, but fewer than workers, or the options contradict each other.
        InputError: The run directory holds something else, or cannot be written.
    """
    _check(options, strategy)
    gpus = divided_gpus(options.local_workers or 1)
    require_free(options.run_dir)
    group = _GROUPS[strategy](options, program, gpus, on_line)
    while (code := group.run()) == WORKERS_LOST and group.restarts_left:
        group.restarts_left -= 1
        on_line(f"{group.everybody} start again ({group.restarts_left} restarts left)")
    return Launched(code, group.has_result)


def _check(options: TrainOptions, strategy: str) -> None:
    count, flags = options.local_workers, ["--local-workers"]
    if strategy == "parameter_server":
        count, flags = options.parameter_servers or 1, [*flags, "--parameter-servers"]
    if options.local_workers is None:
        raise UsageError(
            f"--parameter-servers {count} needs workers. Pass --local-workers 2, or leave it out "
            "and set TF_CONFIG for --strategy parameter_server."
        )
    if options.strategy not in ("default", strategy):
        raise UsageError(
            f"--strategy {options.strategy} does not work with {flags[-1]} {count}, which start "
            f"--strategy {strategy}. Leave one of them out."
        )
    if VARIABLE in os.environ:
        raise UsageError(
            f"{VARIABLE} is set, and {flags[-1]} would set another one for each process. Unset it, "
            f"or leave {' and '.join(flags)} out."
        )
