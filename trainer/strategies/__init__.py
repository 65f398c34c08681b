"""How one training step is spread over devices.

To add a strategy: one file with `create() -> tf.distribute.Strategy`, and one line below. The loop
is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer.strategies import default, mirrored

# value of --strategy -> what creates the tf.distribute.Strategy
STRATEGIES: dict[str, Callable[[], Any]] = {
    "default": default.create,
    "mirrored": mirrored.create,
}

__all__ = ["STRATEGIES"]
