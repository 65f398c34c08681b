"""The augmentation one size smaller."""

from __future__ import annotations

import dataclasses
from typing import cast

from reader.sampled import sampled_source
from reader.stream import Stream
from trainer.data import open_data
from trainer.diagnosis.advice import Trial
from trainer.diagnosis.remedies.base import Case

# Each with the next lighter one. Without any, a model learns something else: not proposed.
_LIGHTER = {"strong": "standard"}


def attempt(case: Case) -> Trial | None:
    """Applies where an augmentation has a lighter one."""
    augment = case.job.options.augment
    if augment not in _LIGHTER:
        return None
    lighter = _LIGHTER[augment]
    lightened = dataclasses.replace(case.job.asked, augment=lighter)
    stream = cast(Stream, open_data(lightened).open_training(0))
    return Trial(
        remedy="lighter-augmentation",
        stage="augment",
        because=f"the augmentation {augment!r} computes on every pixel of every picture",
        costs=case.with_chain(sampled_source(stream)),
        options={"--augment": lighter},
        note="a model may learn less from lighter augmentation: compare validation",
    )
