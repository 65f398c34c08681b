"""Several processes of this machine that train together: `shardmill train --local-workers N`.

Every process runs the same command, with TF_CONFIG for it. The first one (worker 0, or the chief)
has the terminal; the others write to RUN/workers.
"""

from __future__ import annotations

import os

from trainer.options import TrainOptions

# Says to a process that it was launched, so that it launches none itself.
LAUNCHED = "SHARDMILL_LOCAL_WORKER"


def is_launched() -> bool:
    """Whether this process is one of several that were launched together."""
    return LAUNCHED in os.environ


def strategy_to_launch(options: TrainOptions) -> str | None:
    """Returns the strategy for which processes are launched; None if one process trains."""
    if options.parameter_servers is not None or (
        options.strategy == "parameter_server" and options.local_workers is not None
    ):
        return "parameter_server"
    return "multi_worker" if (options.local_workers or 1) > 1 else None
