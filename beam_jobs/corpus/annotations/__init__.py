"""Objects in the images of a corpus, from what annotates them: one file per format.

To add one, write a function from a place and an `AnnotationStore` in a file here, a line in
`_READERS`, and its name in `options.image.ANNOTATION_FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_jobs.corpus.annotations.store import AnnotationStore
from foundation.members import Members
from foundation.storage import Place

_PACKAGE = "beam_jobs.corpus.annotations"

_READERS = {
    "coco": f"{_PACKAGE}.coco:read_coco",
    "voc": f"{_PACKAGE}.voc:read_voc",
    "yolo": f"{_PACKAGE}.yolo:read_yolo",
    "csv": f"{_PACKAGE}.box_tables:read_boxes",
    "open-images": f"{_PACKAGE}.box_tables:read_boxes",
    "masks": f"{_PACKAGE}.masks:read_masks",
}

FORMATS: Members[Callable[[Place, AnnotationStore], None]] = Members(_READERS)
"""Writes all annotations of a file or folder to a store."""

CLASSES: Members[Callable[[Place, AnnotationStore], None]] = Members(
    _READERS | {"coco": f"{_PACKAGE}.coco:read_categories"}
)
"""Writes the classes of all objects; whatever else there is may be left out."""
