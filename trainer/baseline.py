"""The accuracy of always giving the same answer, to hold that of a model against."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shard_format import Feature, Manifest

MAIN_LABEL = "label"  # the others have their statistics under their own names


@dataclasses.dataclass(frozen=True)
class Baseline:
    """Always answering one class.

    Attributes:
        class_name: The most frequent class of the records it was chosen on.
        chosen_on: What these records are: the name of a split, or a folder.
        accuracy: Share of the evaluated records that are of this class, in [0, 1].
    """

    class_name: str
    chosen_on: str
    accuracy: float

    @property
    def text(self) -> str:
        """The baseline in words: "12.5% by always answering 'hat', ..."."""
        return (
            f"{self.accuracy:.1%} by always answering {self.class_name!r}, the most frequent class "
            f"of {self.chosen_on}"
        )


def majority_baseline(
    manifest: Manifest, label: Feature | None, train_split: str, split: str
) -> Baseline | None:
    """The most frequent class of the training split, measured on another split.

    Where the training split is not there, the class is chosen on the other split.

    Returns:
        None where records have any number of labels or none, and where the set has no counts.
    """
    measured = _class_counts(manifest, label, split)
    for chosen_on in (train_split, split):
        counts = _class_counts(manifest, label, chosen_on)
        if counts and sum(measured.values()):
            best = max(counts, key=lambda name: counts[name])
            share = measured.get(best, 0) / sum(measured.values())
            return Baseline(best, chosen_on, share)
    return None


def _class_counts(manifest: Manifest, label: Feature | None, split: str) -> Mapping[str, int]:
    """Records of each class in a split; empty where the set does not say."""
    if label is None or label.shape or split not in manifest.splits:
        return {}
    statistics: Mapping[str, Any] = manifest.splits[split].statistics
    if label.name != MAIN_LABEL:
        statistics = statistics.get("labels", {}).get(label.name, {})
    counts = statistics.get("class_counts")
    return counts if isinstance(counts, dict) else {}
