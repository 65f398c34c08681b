"""Synonyms: a list that the user gives, and the operation of EDA."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reader.lazy_tensorflow import tf
from reader.transforms.text.draws import Draws
from reader.transforms.text.letters import pick
from reader.transforms.text.words import choose, join_words, num_changed, split_words
from shard_format import UsageError

# Characters around a word that are not part of it: a comma, a bracket, a quotation mark. Marks are
# part of it: words of Hindi or Thai end in a vowel sign, and an accent may be a character.
_BEFORE, _AFTER = r"^([^\pL\pM\pN]*).*$", r"^.*?([^\pL\pM\pN]*)$"
_AROUND = r"^[^\pL\pM\pN]+|[^\pL\pM\pN]+$"


# The synonyms of each word of a list, in lower case all of them.
SynonymLists = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Synonyms:
    """`SynonymLists` in TensorFlow.

    Attributes:
        table: A tf.lookup table from a word in lower case to its number, -1 for all others.
        others: [number of words, ragged] string.
    """

    table: Any
    others: Any


def read_synonyms(path: Path) -> SynonymLists:
    """The list in a file of UTF-8: a group of synonyms per line.

    The words of a line are separated by commas ("film, movie, motion picture"); a word may be in
    several lines. Lines that are empty or begin with # are left out.

    Raises:
        UsageError: The file cannot be read, a line holds but one word, or there is no line.
    """
    others: dict[str, dict[str, None]] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = list(dict.fromkeys(word.strip().lower() for word in line.split(",")))
        words = [" ".join(word.split()) for word in words if word]
        if len(words) < 2:
            raise UsageError(
                f"Line {number} of {path} has fewer than two comma-separated words: "
                f"{line.strip()!r}. Add another word, or remove the line."
            )
        for word in words:
            known = others.setdefault(word, {})
            known.update((other, None) for other in words if other != word)
    if not others:
        raise UsageError(f"No line of synonyms in {path}. Write for instance 'film, movie'.")
    return {word: list(known) for word, known in others.items()}


def synonym_table(lists: SynonymLists) -> Synonyms:
    """The lists as tensors."""
    keys = tf.constant(list(lists))
    values = tf.range(len(lists), dtype=tf.int64)
    return Synonyms(
        tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1),
        tf.ragged.constant(list(lists.values()), dtype=tf.string),
    )


def _lines(path: Path) -> list[str]:
    try:
        # some editors begin a file with a byte order mark, which is of no word
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"Cannot read synonyms from {path} as UTF-8 text: {error}. Check the path and the "
            "encoding."
        ) from error


def synonym_replacement(text: Any, draws: Draws, synonyms: Synonyms) -> Any:
    """[n] string: in each text as many words as a tenth of it, at least one, become synonyms.

    The synonym replacement of EDA (Wei and Zou 2019, arXiv 1901.11196, section 2), with the user's
    own list in place of WordNet. Case and punctuation around a word do not count when it is looked
    up; punctuation stays, and a synonym comes in lower case. Only words of the list are chosen.

    Args:
        text: [n] string, UTF-8.
        draws: Random numbers of these texts.
        synonyms: The list.
    """
    words = split_words(text)
    flat = words.flat_values
    core = tf.strings.lower(tf.strings.regex_replace(flat, _AROUND, ""), encoding="utf-8")
    entry = synonyms.table.lookup(core)
    known = entry >= 0
    # Words that are not in the list come last, and those beyond the known ones are not changed.
    numbers = draws.stream(0).each(words) + tf.where(known, 0.0, 1.0)
    ranked = choose(words, numbers / 2, num_changed(words.row_lengths()))
    where = tf.where(ranked & known)
    flat_where, entry, random = (
        tf.gather_nd(values, where) for values in (flat, entry, draws.stream(1).each(words))
    )
    starts, lengths = synonyms.others.row_starts(), synonyms.others.row_lengths()
    picked = pick(random, tf.cast(tf.gather(lengths, entry), tf.int32))
    other = tf.gather(
        synonyms.others.flat_values, tf.gather(starts, entry) + tf.cast(picked, tf.int64)
    )
    replaced = tf.strings.join(
        [
            tf.strings.regex_replace(flat_where, _BEFORE, r"\1"),
            other,
            tf.strings.regex_replace(flat_where, _AFTER, r"\1"),
        ]
    )
    return join_words(words.with_flat_values(tf.tensor_scatter_nd_update(flat, where, replaced)))
