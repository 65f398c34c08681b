"""What a set has that `train` does not learn, and the program of the repository that does."""

from __future__ import annotations

from shard_format import Schema

# A feature -> (what it holds, name in samples/training)
_PROGRAMS = {
    "objects/bbox": ("boxes", "boxes"),
    "segmentation_mask": ("masks", "masks"),
    "caption": ("captions", "captions"),
}


def starting_program(schema: Schema) -> str:
    """A sentence that names the program; empty where `train` learns all that there is."""
    names = {feature.name for feature in schema.features}
    for feature, (held, program) in _PROGRAMS.items():
        if feature in names:
            return f"to learn the {held} of a set, begin with samples/training/{program}.py"
    return ""
