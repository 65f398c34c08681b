"""The augmentation one size smaller."""

from __future__ import annotations

import dataclasses
from typing import cast

from reader.profiling.sampled_pipeline import sampled_pipeline
from reader.stream import Stream
from trainer.data import open_data
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.remedies.base import Case

# What is left of an augmentation that is made lighter; without any, a model learns something else.
_LIGHT = "standard"


def attempt(case: Case) -> Attempt | None:
    """Applies where more is asked for than the standard augmentation."""
    augment, lighter = case.job.options.augment, _LIGHT
    if augment in ("none", lighter):
        return None
    lightened = dataclasses.replace(case.job.asked, augment=lighter)
    stream = cast(Stream, open_data(lightened).open_training(None))
    return Attempt(
        remedy="lighter-augmentation",
        stage="augment",
        because=f"the augmentation {augment!r} computes more than the {lighter} one",
        costs=case.with_chain(sampled_pipeline(stream)),
        options={"--augment": lighter},
        note="a model may learn less from lighter augmentation: compare validation",
    )
