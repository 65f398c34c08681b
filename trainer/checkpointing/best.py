"""Which epoch of a run is the best one, and when no better one is waited for.

Both follow from the history alone, so that a continued run needs to remember nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from foundation.errors import UsageError
from trainer.events import EpochDone
from trainer.options import Settings


def best_epoch(history: Sequence[EpochDone], monitor: str) -> EpochDone | None:
    """The best epoch, of equal ones the first; None where nothing was validated.

    Args:
        history: Epochs of a run.
        monitor: "loss", or "accuracy", which of a language model is that of its tokens.
    """
    measured = [epoch for epoch in history if score(epoch, monitor) is not None]
    return max(measured, key=lambda epoch: score(epoch, monitor) or 0.0, default=None)


def is_over(history: Sequence[EpochDone], options: Settings) -> bool:
    """Whether a run is at its end: after all epochs, or so many without a better one."""
    if len(history) >= options.epochs:
        return True
    best = best_epoch(history, options.monitor)
    if options.patience is None or best is None:
        return False
    return history[-1].epoch - best.epoch >= options.patience


def require_validation(options: Settings, *, has_validation: bool) -> None:
    """Checks that there is a split to wait for a better epoch on.

    Raises:
        UsageError: There is none.
    """
    if options.patience is not None and not has_validation:
        raise UsageError(
            f"--patience {options.patience} needs a validation split, and {options.data} has none "
            "that is used. Build it with --split train=0.8,validation=0.1,test=0.1, pass "
            "--validation-split, or leave --patience out."
        )


def score(epoch: EpochDone, monitor: str) -> float | None:
    """The greater, the better."""
    if epoch.val_loss is None:
        return None
    if monitor == "loss":
        return -epoch.val_loss
    return epoch.val_token_accuracy if epoch.val_accuracy is None else epoch.val_accuracy
