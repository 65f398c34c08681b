"""A folder of PNG masks, of which each pixel is the number of a class.

The mask of a/b.jpg is a/b.png, as of ADE20K. Names of Cityscapes are known: that of
x_leftImg8bit.png is x_gtFine_labelIds.png. Formats: Zhou et al., Scene Parsing through ADE20K
Dataset, CVPR 2017; Cordts et al., The Cityscapes Dataset, CVPR 2016.
"""

from __future__ import annotations

import re

from beam_jobs.corpus.annotations.files import files_below
from beam_jobs.corpus.annotations.store import AnnotationStore
from foundation.storage import Place

# Of Cityscapes, the only file of several for each image that has class numbers.
_CITYSCAPES = re.compile(r"_(gtFine|gtCoarse)_(?P<kind>labelIds|instanceIds|color|labelTrainIds)$")


def read_masks(folder: Place, store: AnnotationStore) -> None:
    """Finds all masks below a folder.

    Raises:
        InputError: Two masks have one name.
    """
    for place, stem in files_below(folder, ".png"):
        match = _CITYSCAPES.search(stem)
        if match is not None and match["kind"] != "labelIds":
            continue
        image = stem if match is None else f"{stem[: match.start()]}_leftImg8bit"
        store.add_image(image, image, mask=str(place))
