"""Pascal VOC: a folder with an XML file for each image.

Coordinates are those of pixels, from 1: a box reaches from the left edge of its first pixel to the
right edge of its last one. Format: Everingham et al., The PASCAL VOC Challenge, IJCV 2010, and the
development kit of VOC 2012.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from beam_jobs.corpus.annotations.files import files_below
from beam_jobs.corpus.annotations.objects import AnnotatedObject, number_of, whole_number
from beam_jobs.corpus.annotations.store import AnnotationStore
from foundation import storage
from foundation.storage import Place
from shard_format import InputError

_SIDES = ("width", "height")
_CORNERS = ("ymin", "xmin", "ymax", "xmax")


def read_voc(folder: Place, store: AnnotationStore) -> None:
    """Reads all XML files below a folder.

    Raises:
        InputError: One is damaged, or two images have one name.
    """
    for place, image in files_below(folder, ".xml"):
        try:
            root = ElementTree.fromstring(storage.read_bytes(place))
        except (ElementTree.ParseError, ValueError, LookupError) as error:  # an encoding
            raise InputError(
                f"--annotations: {place} is not XML: {error}. Correct or remove the file."
            ) from error
        width, height = (whole_number(root.findtext(f"size/{side}")) for side in _SIDES)
        store.add_image(image, image, width, height)
        for element in root.iter("object"):
            label = (element.findtext("name") or "").strip()
            box = [number_of(element.findtext(f"bndbox/{side}")) for side in _CORNERS]
            ymin, xmin, ymax, xmax = box
            if label:
                store.add_class(label)
            store.add_object(image, AnnotatedObject(label, (ymin - 1, xmin - 1, ymax, xmax)))
