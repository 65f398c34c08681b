"""How far a run has come, as its checkpoints hold it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from trainer.loop import NOTHING, Totals


@dataclasses.dataclass(frozen=True)
class Progress:
    """A place between two steps of a run.

    Attributes:
        epochs_done: Whole epochs, each with its validation.
        step: Training steps of the epoch behind them that are done. All steps of an epoch, where
            only its validation is still to come.
        totals: Sums over these steps.
        reader: The state of the stream there, see `reader.Stream.state`. None at the beginning,
            and in checkpoints of version 0.1.0, which know no place but the end of an epoch.
    """

    epochs_done: int = 0
    step: int = 0
    totals: Totals = NOTHING
    reader: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """One line; floats come back from it to the bit."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Progress:
        """The place that `to_json` wrote.

        Raises:
            ValueError: It is none.
        """
        try:
            fields = json.loads(text)
            return cls(**{**fields, "totals": Totals(**fields["totals"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"no progress of a run: {text!r}") from error
