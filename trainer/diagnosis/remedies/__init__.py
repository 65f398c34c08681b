"""What may make a training job faster; one file per remedy, each of which tries itself.

To add one: a file with `attempt(case) -> Attempt | None`, and a line below.
"""

from __future__ import annotations

from trainer.diagnosis.remedies import (
    all_cores,
    buckets,
    cache_decoded,
    cache_memory,
    jpeg,
    larger_batch,
    lighter_augmentation,
    precision,
    smaller_images,
)
from trainer.diagnosis.remedies.base import Case, Remedy

# Where two promise the same, the first is proposed.
REMEDIES: dict[str, Remedy] = {
    "all-cores": Remedy(("cores",), all_cores.attempt),
    "cache-memory": Remedy(("storage",), cache_memory.attempt),
    "decoded-cache": Remedy(("decode",), cache_decoded.attempt),
    "smaller-images": Remedy(("decode", "storage"), smaller_images.attempt),
    "jpeg": Remedy(("decode",), jpeg.attempt),
    "lighter-augmentation": Remedy(("augment",), lighter_augmentation.attempt),
    "buckets": Remedy(("step",), buckets.attempt),
    "larger-batch": Remedy(("step",), larger_batch.attempt),
    "precision": Remedy(("step",), precision.attempt),
}

__all__ = ["REMEDIES", "Case", "Remedy"]
