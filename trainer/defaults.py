"""Defaults of a run, by the kind of set that it trains on."""

from __future__ import annotations

import dataclasses

# Into how many groups of similar length the documents of a window are divided. In batches of 32, 1,
# 4, 16 and 32 groups leave 68, 40, 17 and 10 % of the positions empty with 8,928 queries of
# Banking77, and 55, 26, 11 and 8 % with 905 film reviews; but the more groups, the more a batch is
# the same documents in every epoch.
BUCKETS = 16


@dataclasses.dataclass(frozen=True)
class Defaults:
    """Values of the options of `TrainOptions` that have the same names."""

    model: str
    image_size: int | None = None
    max_tokens: int | None = None
    buckets: int | None = None
    batch_size: int = 32
    epochs: int = 10
    learning_rate: float = 1e-3
    warmup_epochs: float = 1.0
    augment: str = "standard"


DEFAULTS = {
    "image": Defaults("small_cnn", image_size=64, learning_rate=2e-3, warmup_epochs=3.0),
    "tokens": Defaults("text_transformer", max_tokens=256, buckets=BUCKETS),
    "packed": Defaults(
        "causal_transformer", batch_size=8, epochs=5, warmup_epochs=0.5, augment="none"
    ),
}


def shown_default(name: str) -> str:
    """The default of an option for people: one value, or one for each kind of set."""
    by_kind = {kind: getattr(defaults, name) for kind, defaults in DEFAULTS.items()}
    by_kind = {kind: value for kind, value in by_kind.items() if value is not None}
    if len(set(by_kind.values())) == 1:
        return str(next(iter(by_kind.values())))
    return ", ".join(f"{kind} {value}" for kind, value in by_kind.items())
