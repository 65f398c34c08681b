"""Images stored as JPEG, of which a reader decodes only what it crops."""

from __future__ import annotations

from shard_format import load_manifest
from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.remedies.base import Case
from trainer.diagnosis.remedies.reencoding import stored_as
from trainer.diagnosis.remedies.smaller_images import image_encoding


def attempt(case: Case) -> Attempt | None:
    """Applies to PNG."""
    encoding = image_encoding(case)
    if encoding != "png":
        return None
    # The size at which they are stored now, from the same source; JPEG is the default.
    config = load_manifest(case.job.options.data).config
    resize = str(config.get("resize", "none"))
    if resize != "none" and config.get("enlarge", True):
        resize += " --enlarge"
    return Attempt(
        remedy="jpeg",
        stage="decode",
        because=f"images are stored as {encoding.upper()}, which takes long to decode",
        costs=stored_as(case, "jpeg", None),
        options={},
        command=f"shardmill preprocess images SRC... --out DIR-jpeg --resize {resize}",
        note="JPEG of quality 90 is not the same to the pixel",
    )
