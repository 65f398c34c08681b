"""What a run does where it is not told: by the kind of set that it learns from."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Defaults:
    """For the options of `TrainOptions` of the same names."""

    model: str
    image_size: int | None
    max_tokens: int | None
    batch_size: int
    epochs: int
    learning_rate: float
    warmup_epochs: float
    augment: str


DEFAULTS = {
    "image": Defaults(
        model="small_cnn",
        image_size=64,
        max_tokens=None,
        batch_size=32,
        epochs=10,
        learning_rate=2e-3,
        warmup_epochs=3.0,
        augment="standard",
    ),
    "tokens": Defaults(
        model="text_transformer",
        image_size=None,
        max_tokens=256,
        batch_size=32,
        epochs=10,
        learning_rate=1e-3,
        warmup_epochs=1.0,
        augment="standard",
    ),
    "packed": Defaults(
        model="causal_transformer",
        image_size=None,
        max_tokens=None,
        batch_size=8,
        epochs=5,
        learning_rate=1e-3,
        warmup_epochs=0.5,
        augment="none",
    ),
}
