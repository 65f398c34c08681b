"""Documents as strings, with one label, any number of them, or none."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from foundation.options import check_choice
from reader.options import ReadOptions, check_fits
from reader.record_types.base import joined
from reader.record_types.features import LabeledParser, find_labels
from reader.record_types.further import byte_strings, find_further
from reader.records.open_split import OpenSplit
from reader.transforms.text import (
    LIST_TRANSFORMS,
    TEXT_AUGMENTATIONS,
    ArrayDraws,
    ListStep,
    SynonymLists,
    make_list_step,
)
from reader.transforms.text.synonyms import read_synonyms
from reader.windows import WindowRows
from shard_format import ShardSetError

TEXT = "text"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextParser(LabeledParser):
    """Parses documents as strings.

    Output: ([batch] bytes of UTF-8, target); the texts alone where the set has no labels. The
    target is [batch] int64, or [batch, num_classes] float32 of zeros and ones.

    Attributes:
        augment: Name of the augmentation.
        synonyms: Synonyms for it, or None.
    """

    augment: str
    synonyms: SynonymLists | None

    @property
    @override
    def input_name(self) -> str:
        return TEXT

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        return ()

    @property
    @override
    def element_dtype(self) -> str:
        return "string"

    @property
    @override
    def needs_tensorflow(self) -> str:
        names = {name for step in TEXT_AUGMENTATIONS[self.augment] for name in step}
        return "" if names <= set(LIST_TRANSFORMS) else f"augment={self.augment!r}"

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        texts = byte_strings(rows.byte_values(TEXT))
        if self._steps:
            # What is not UTF-8, though it should be, comes out as it was.
            decoded = [text.decode(errors="surrogateescape") for text in texts]
            for number, step in enumerate(self._steps):
                decoded = step(decoded, ArrayDraws(rows.keys).stream(number))
            texts[:] = [text.encode(errors="surrogateescape") for text in decoded]
        return (
            texts,
            self.labels.targets(rows.columns),
            self.further.values(rows.columns, rows.where),
        )

    @functools.cached_property
    def _steps(self) -> tuple[ListStep, ...]:
        steps = TEXT_AUGMENTATIONS[self.augment]
        return tuple(make_list_step(names, self.synonyms) for names in steps)

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        texts, labels, further = zip(*parts, strict=True)
        return self.element(joined(texts, kept), joined(further, kept), joined(labels, kept))


def text_parser(split: OpenSplit, options: ReadOptions) -> TextParser:
    """Creates the parser of a split of documents.

    Raises:
        ShardSetError: The schema has no text, or a record has no label.
        UsageError: An option is not for raw text, or the synonyms cannot be read.
    """
    check_fits(options, "text", split.root)
    check_choice("augment", options.augment, TEXT_AUGMENTATIONS, split.root)
    if all(feature.name != TEXT for feature in split.schema.features):
        names = ", ".join(f"{feature.name} ({feature.kind})" for feature in split.schema.features)
        raise ShardSetError(
            f"No feature {TEXT!r} among {names or 'no features'} in {split.where}. Build the set "
            "again."
        )
    labels = find_labels(split, options.label)
    further = find_further(split, options, (TEXT, *labels.names))
    text = split.schema[TEXT]
    return TextParser(
        features=(text, *labels.features.values(), *further.stored),
        labels=labels,
        further=further,
        augment=options.augment,
        synonyms=None if options.synonyms is None else read_synonyms(Path(options.synonyms)),
    )
