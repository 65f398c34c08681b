"""The text of records and of refused originals, as far as an excerpt needs it.

Documents are hostile input: what is given back is bounded, and `markup.excerpt` alone brings it on
the page.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_jobs.report.choosing import MOST_CLASSES, choose
from beam_jobs.report.finished import FinishedSet, Place
from shard_format.example import Values

MOST_CHARACTERS = 500  # of a document that are ever shown
_MOST_TOKENS = 256  # that are decoded: about 1,000 characters
_SHOWN_PER_CLASS = 2
_SHOWN_WITHOUT_CLASSES = 8
_MOST_RECORD_BYTES = 16 << 20  # 16 MiB: a longer document gets no excerpt
_TOKEN_FEATURES = ("tokens", "token_ids", "input_ids")
_UNREADABLE = 0.25  # share of characters, from which on bytes are no text to a person

_Decode = Callable[[Sequence[int]], str]


class Excerpt(NamedTuple):
    """The beginning of a document, and whether the document is longer."""

    text: str
    more: bool


@dataclasses.dataclass
class ClassTexts:
    """Documents of one class.

    Attributes:
        name: Of the class.
        shown: (record id, excerpt or None where there can be none) of the first few.
    """

    name: str
    shown: list[tuple[str, Excerpt | None]] = dataclasses.field(default_factory=list)


def sample_texts(finished: FinishedSet) -> list[ClassTexts]:
    """Documents of the most frequent classes, or of all records if there are no labels.

    Raises:
        DamageError: A record of the sample does not match its checksum.
    """
    names = finished.class_names
    labels = finished.commonest_classes(MOST_CLASSES) if names else [0]
    count = _SHOWN_PER_CLASS if names else _SHOWN_WITHOUT_CLASSES
    samples = {label: ClassTexts(names[label] if names else "all records") for label in labels}
    chosen = list(choose(finished, labels, count))
    read = dict(excerpts(finished, (place for _, place in chosen)))
    for label, place in chosen:
        samples[label].shown.append((place.record_id, read.get(place)))
    return [sample for sample in samples.values() if sample.shown]


def excerpts(finished: FinishedSet, places: Iterable[Place]) -> Iterator[tuple[Place, Excerpt]]:
    """The beginnings of some records; those without text, or with too much of it, are left out.

    Raises:
        DamageError: A shard is missing or cut, or a record does not match its checksum.
    """
    text_of = _text_reader(finished)
    if text_of is None:
        return
    short = [place for place in places if place.length <= _MOST_RECORD_BYTES]
    for place, values in finished.read(short):
        found = text_of(values)
        if found is not None:
            yield place, found


def excerpt_of_bytes(data: bytes) -> Excerpt | None:
    """The beginning of bytes that nobody vouches for; None if a person cannot read them.

    A byte that is no UTF-8 is shown as Python writes it in a literal.
    """
    begin = data[: 4 * MOST_CHARACTERS]
    replaced = begin.decode("utf-8", "replace")
    odd = sum(char == "\ufffd" or not (char.isprintable() or char.isspace()) for char in replaced)
    if odd > _UNREADABLE * len(replaced):
        return None
    return _cut(begin.decode("utf-8", "backslashreplace"), len(data) > len(begin))


def excerpt_of_preview(data: bytes) -> Excerpt:
    """What duplicates.parquet keeps of a document: the beginning of its text."""
    return _cut(data.decode("utf-8", "replace"), False)


def _cut(text: str, more: bool) -> Excerpt:
    return Excerpt(text[:MOST_CHARACTERS], more or len(text) > MOST_CHARACTERS)


def _text_reader(finished: FinishedSet) -> Callable[[Mapping[str, Values]], Excerpt | None] | None:
    """How to get at the text of a record of this set, if it has any."""
    features = {feature.name: feature for feature in finished.manifest.schema.features}
    if "text" in features and features["text"].kind == "text":
        return _stored_text
    named = (features[name] for name in _TOKEN_FEATURES if name in features)
    lists = (feature for feature in features.values() if feature.kind == "int64" and feature.shape)
    tokens = next(itertools.chain(named, lists), None)
    if tokens is None:
        return None
    name, decode = tokens.name, _decoder(finished)

    def from_tokens(values: Mapping[str, Values]) -> Excerpt | None:
        ids = values.get(name)
        if ids is None:
            return None
        text = decode([int(number) for number in ids[:_MOST_TOKENS]])
        return _cut(text, len(ids) > _MOST_TOKENS)

    return from_tokens


def _stored_text(values: Mapping[str, Values]) -> Excerpt | None:
    stored = values.get("text")
    if not stored or not isinstance(stored[0], bytes):
        return None
    begin = stored[0][: 4 * MOST_CHARACTERS]
    return _cut(begin.decode("utf-8", "replace"), len(stored[0]) > len(begin))


def _decoder(finished: FinishedSet) -> _Decode:
    """Token ids to text by the tokenizer in the set; to numbers where it has none we can use."""
    for name, load in _TOKENIZERS.items():
        if name not in finished.manifest.files:
            continue
        try:
            decode = load(str(finished.directory / name))
        except Exception:  # Whatever its parser raises; the numbers are there.
            return _numbers
        return lambda ids: _decoded(decode, ids)
    return _numbers


def _decoded(decode: _Decode, ids: Sequence[int]) -> str:
    try:
        return decode(ids)
    except Exception:  # An id that the tokenizer does not have.
        return _numbers(ids)


# Their packages are loaded for sets of tokens alone.
def _hugging_face(path: str) -> _Decode:
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(path)
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))


def _sentence_piece(path: str) -> _Decode:
    from sentencepiece import SentencePieceProcessor

    processor: Any = SentencePieceProcessor(model_file=path)
    return lambda ids: str(processor.decode(list(ids)))


_TOKENIZERS: dict[str, Callable[[str], _Decode]] = {
    "tokenizer.json": _hugging_face,
    "tokenizer.model": _sentence_piece,
}


def _numbers(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))
