"""Decoded images in memory: each is decoded once, before the first epoch."""

from __future__ import annotations

import dataclasses

from foundation.wording import format_bytes
from reader.cache.choosing import available_memory_bytes
from reader.profiling.sampled_pipeline import decoded_pipeline, open_again
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.remedies.base import Case
from trainer.diagnosis.remedies.smaller_images import image_encoding, image_sides

# The trainer needs memory too; more than "auto" takes, since here a person decides.
_MEMORY_SHARE = 0.5


def attempt(case: Case) -> Attempt | None:
    """Applies to images that are decoded in every epoch, and fit into memory as pixels."""
    info = case.job.stream.info
    if info.cache_stage == "decoded" or image_encoding(case) in ("", "raw"):
        return None
    sides = image_sides(case)
    if sides is None:
        return None
    size = int(3 * sides.prod(axis=0).sum())  # a byte for each of the three channels
    if size > _MEMORY_SHARE * available_memory_bytes():
        return None
    pipeline = decoded_pipeline(open_again(case.job.stream))
    return Attempt(
        remedy="decoded-cache",
        stage="decode",
        because=(
            "images are decoded again in every epoch, though all of them fit into memory as "
            f"pixels ({format_bytes(size)})"
        ),
        costs=dataclasses.replace(case.with_chain(pipeline, 0.0), storage_seconds=0.0),
        options={"--cache": "memory", "--cache-stage": "decoded"},
        note="the first epoch starts when all of them have been decoded once",
    )
