"""The captions of images: cleaned and filtered as documents are, and tokenized."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.corpus.labels import kept_columns
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.options import ImageOptions
from beam_jobs.text.cleaning import Applied, Texts, make_steps, versions
from beam_jobs.text.tokenizers import Tokenizer, load_tokenizer, tokenizer_of_set
from foundation import storage
from foundation.storage import Place
from shard_format import Feature, file_sha256, naming


class CaptionBatch(NamedTuple):
    """The captions of some records.

    Attributes:
        captions: [n], of each record those that are left.
        rejects: Why a record is left out, by its place.
    """

    captions: list[list[str]]
    rejects: dict[int, Rejection]


def _tokenizer_of(options: ImageOptions) -> Place | None:
    """The tokenizer of a job; of a later generation, the copy that its set has."""
    if options.tokenizer is None:
        return None
    base = storage.place_of(options.base) if options.base else None
    copy = tokenizer_of_set(base, options.base_generation) if base else None
    return copy or storage.place_of(options.tokenizer)


class Captions:
    """Makes features of the captions in a column.

    Args:
        options: The job, with a --caption-column.
    """

    def __init__(self, options: ImageOptions) -> None:
        self.column, self._several = options.caption
        self._path = _tokenizer_of(options)
        self._length = options.max_caption_tokens
        self._steps: tuple[Applied, ...] = make_steps(options.clean_captions)
        self._place = [one.name for one in kept_columns(options)].index(self.column)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that images have."""
        several = (-1,) if self._several else ()
        features = (Feature("caption", "text", several),)
        if self._path is None:
            return features
        tokens = Feature("caption_tokens", "int64", (*several, self._length))
        return (*features, tokens, Feature("caption_length", "int64", several))

    def options(self) -> dict[str, Any]:
        """What has an effect on them."""
        steps = [applied.described() for applied in self._steps]
        digest = None if self._path is None else file_sha256(self._path)
        return {
            "column": self.column,
            "several": self._several,
            "cleaning": steps,
            "tokenizer": digest,
            "length": self._length,
            "kernels": versions(self._steps),
        }

    def clean(self, records: Sequence[RawRecord]) -> CaptionBatch:
        """The cleaned captions of records; a record without any is left out."""
        given = [record.annotations.kept[self._place] for record in records]
        lists: list[list[str]] = given if self._several else [[one] for one in given]
        owner = np.repeat(np.arange(len(lists)), list(map(len, lists)))
        flat = [text for texts in lists for text in texts]
        batch = pa.record_batch(
            {"text": pa.array(flat, pa.large_string()), "is_html": [False] * len(flat)}
        )
        texts = Texts(batch, [records[row].original for row in owner.tolist()])
        for applied in self._steps:
            applied.step(texts)
        captions: list[list[str]] = [[] for _ in records]
        for row, text in zip(texts.rows.tolist(), texts.text.to_pylist(), strict=True):
            if text:
                captions[owner[row]].append(text)
        reasons = {int(owner[row]): rejection for row, rejection in reversed(texts.rejects)}
        rejects = {
            number: reasons.get(number, Rejection("no-caption", "it has no caption"))
            for number, own in enumerate(captions)
            if not own
        }
        return CaptionBatch(captions, rejects)

    def values(self, captions: Sequence[list[str]]) -> dict[str, Any]:
        """The values of the features of some records."""
        values: dict[str, Any] = {"caption": self._of_records(captions)}
        if self._path is not None:
            ids = iter(self._tokenizer.encode([text for own in captions for text in own]))
            cut = [[next(ids)[: self._length] for _ in own] for own in captions]
            rows = [np.stack([self._filled_up(one) for one in own]) for own in cut]
            values["caption_tokens"] = rows if self._several else [one[0] for one in rows]
            values["caption_length"] = self._of_records([list(map(len, own)) for own in cut])
        return values

    def _of_records(self, lists: Sequence[list[Any]]) -> list[Any]:
        return list(lists) if self._several else [one[0] for one in lists]

    def _filled_up(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        vocabulary = self._tokenizer.vocabulary
        fill = next((one for one in (vocabulary.pad, vocabulary.end) if one is not None), 0)
        return np.pad(ids.astype(np.int64), (0, self._length - len(ids)), constant_values=fill)

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        return load_tokenizer(cast(Place, self._path))  # asked for only where there is one

    def check(self) -> None:
        """Checks that the tokenizer can be used.

        Raises:
            InputError: It cannot.
        """
        if self._path is not None:
            _ = self._tokenizer

    def files(self) -> dict[str, Place]:
        """The tokenizer, which the set has a copy of."""
        if self._path is None:
            return {}
        return {naming.TOKENIZERS[self._tokenizer.kind]: self._path}

    def config(self) -> dict[str, Any]:
        """The vocabulary, for the manifest."""
        if self._path is None:
            return {}
        digest = file_sha256(self._path)
        return {"tokenizer": digest, "vocabulary": self._tokenizer.vocabulary.described()}
