"""What a set has that `train` does not learn, and the program of the repository that does."""

from __future__ import annotations

from shard_format import Schema

# A feature -> what it holds, which is also the name of a program in samples/training
_PROGRAMS = {"objects/bbox": "boxes", "segmentation_mask": "masks", "caption": "captions"}


def starting_program(schema: Schema) -> str:
    """A sentence that names the program; empty where `train` learns all that there is."""
    names = {feature.name for feature in schema.features}
    for feature, held in _PROGRAMS.items():
        if feature in names:
            return f"to learn the {held} of a set, begin with samples/training/{held}.py"
    return ""
