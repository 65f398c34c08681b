"""Images stored at about the size at which they are seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from shard_format import load_manifest, manifest_with, open_index
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.remedies.base import Case
from trainer.diagnosis.remedies.reencoding import stored_as

# Crops of 224 from images of 256: the custom since Krizhevsky et al. (2012).
_MARGIN = 256 / 224
_MULTIPLE = 16  # sides are rounded up to whole blocks of a JPEG with halved colour
_LEAST_EXCESS = 1.25  # below it a new set gains next to nothing


def attempt(case: Case) -> Attempt | None:
    """Applies where images are stored much larger than the model sees them, in a known coding."""
    size, encoding = case.job.options.image_size, image_encoding(case)
    sides = image_sides(case)
    if size is None or sides is None or encoding not in ("jpeg", "png"):
        return None
    stored = int(np.median(sides.min(axis=0)))
    target = int(-(-size * _MARGIN // _MULTIPLE) * _MULTIPLE)
    if stored < _LEAST_EXCESS * target:
        return None
    coded = "" if encoding == "jpeg" else f" --encoding {encoding}"
    return Attempt(
        remedy="smaller-images",
        stage="decode",
        because=f"images are stored at {stored} pixels (shorter side) and seen at {size}",
        costs=stored_as(case, encoding, target),
        options={},
        command=(
            f"shardmill preprocess images SRC... --out DIR-{target} "
            f"--resize shorter:{target}{coded}"
        ),
        note="strong crops see less detail than in the large images",
    )


def image_encoding(case: Case) -> str:
    """How the images of a set are stored; an empty string where it holds none."""
    schema = load_manifest(case.job.options.data).schema
    return next((feature.encoding for feature in schema.features if feature.kind == "image"), "")


def image_sides(case: Case) -> Any:
    """[2, num_records] int64: width and height of all images; None where the index has none."""
    info = case.job.stream.info
    manifest = manifest_with(info.directory, info.root_hash) or load_manifest(info.directory)
    index = open_index(info.directory / manifest.index_file(info.split))
    if not {"width", "height"} <= set(index.column_names):
        return None
    return np.stack([np.asarray(index[name].to_numpy(), np.int64) for name in ("width", "height")])
