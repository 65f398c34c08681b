"""Pictures stored as JPEG, of which a reader decodes only what it crops."""

from __future__ import annotations

from trainer.diagnosis.advice import Trial
from trainer.diagnosis.remedies.base import Case
from trainer.diagnosis.remedies.reencoding import stored_as
from trainer.diagnosis.remedies.smaller_pictures import picture_encoding


def attempt(case: Case) -> Trial | None:
    """Applies to PNG."""
    encoding = picture_encoding(case)
    if encoding != "png":
        return None
    return Trial(
        remedy="jpeg",
        stage="decode",
        because=f"pictures are stored as {encoding.upper()}, which takes long to decode",
        costs=stored_as(case, "jpeg", None),
        options={},
        command="shardmill preprocess images SRC... --out DIR-jpeg --resize none --encoding jpeg",
        note="JPEG of quality 90 is not the same to the pixel",
    )
