"""--label-pattern: label, split and group from the names of files, and a guess of the pattern.

The regular expressions are those of RE2, by way of Arrow. It searches in linear time: a name from
a hostile archive cannot stall the listing, as it can with Python's `re`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.names import SPLIT_NAMES, own_name, own_path, split_name
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import pattern_groups

_BATCH_ITEMS = 4096  # matched at once: to compile a pattern takes as long as to search 50 names
_SHOWN_CLASSES = 3
_MATCHED = 0.9  # of all names, by a pattern that is worth to be suggested
_SEPARATORS = ("_", "-", r"\.", " ")
_GUESSES = (
    *(rf"^(?P<label>.+){one}\d+\." for one in _SEPARATORS),  # cat.123.jpg, red_fox_7.jpg
    r"^(?P<label>.+) \(\d+\)\.",  # cat (12).jpg
    r"^(?P<label>[A-Za-z][A-Za-z_-]*?)\d+\.",  # cat12.jpg
    *(rf"^[a-z]?\d+{one}(?P<label>.+)\." for one in _SEPARATORS),  # 7_tench.jpg
    *(rf"^(?P<label>[A-Za-z]+){one}" for one in _SEPARATORS),  # cat_7_left.jpg
)
# Names of classes behind their numbers in WordNet, of which each image may have its own.
_WORDNET = r"^n\d{8}_(?P<label>.+)\."  # n01440764_tench.JPEG


class NameAnnotations:
    """Gives items what --label-pattern finds in their names.

    Args:
        options: The job; --label-pattern is given.
    """

    def __init__(self, options: PreprocessOptions) -> None:
        self._pattern = options.label_pattern or ""
        self._groups = pattern_groups(options.label_pattern)
        if options.no_labels:
            self._groups -= {"label"}

    def applied(self, items: Iterator[SourceItem]) -> Iterator[SourceItem]:
        """The items, annotated; those whose name does not match are rejected."""
        while batch := list(itertools.islice(items, _BATCH_ITEMS)):
            names = [_searched(item, self._pattern) for item in batch]
            matches = _matches(self._pattern, names)
            for item, name, groups in zip(batch, names, matches, strict=True):
                yield self._annotated(item, name, groups)

    def _annotated(self, item: SourceItem, name: str, groups: dict[str, str] | None) -> SourceItem:
        texts = {group: text for group, text in (groups or {}).items() if text.strip()}
        split = split_name(texts.get("split", ""))
        item = item._replace(
            label=texts["label"] if "label" in texts and "label" in self._groups else item.label,
            split=split or item.split,
            group=texts.get("group", item.group),
        )
        if item.reason:
            return item
        for group in ("label", "split"):
            if group in self._groups and group not in texts:
                detail = f"--label-pattern finds no {group} in {name!a}"
                return item.rejected(Rejection("no-match", detail))
        if "split" in self._groups and split is None:
            detail = f"the name has {texts['split']!a}, which is none of {', '.join(SPLIT_NAMES)}"
            return item.rejected(Rejection("no-split", detail))
        return item


class Guess(NamedTuple):
    """A pattern that finds a label in most of some names.

    Attributes:
        pattern: A value of --label-pattern.
        classes: The labels that it finds, sorted.
    """

    pattern: str
    classes: list[str]

    def __str__(self) -> str:
        """The number of classes, and the first."""
        shown = ", ".join(map(ascii, self.classes[:_SHOWN_CLASSES]))
        more = ", ..." if len(self.classes) > _SHOWN_CLASSES else ""
        return f"{len(self.classes)} classes ({shown}{more})"


def guess_pattern(record_ids: Sequence[str]) -> Guess | None:
    """A pattern for the names of files that are in no class folders; None if none is likely.

    It must match nearly all, and find labels that are shared: at most one for every two files. Only
    names of WordNet are known to be classes without that.
    """
    names = [own_name(record_id) for record_id in record_ids]
    for pattern in (*_GUESSES, _WORDNET):
        labels = [match["label"] for match in _matches(pattern, names) if match]
        classes = sorted(set(labels))
        most = len(names) if pattern == _WORDNET else len(names) / 2
        if len(labels) >= _MATCHED * len(names) and 2 <= len(classes) <= most:
            return Guess(pattern, classes)
    return None


def _matches(pattern: str, names: Sequence[str]) -> list[dict[str, Any] | None]:
    """The text of every group by name, "" of one that takes no part; None if nothing matches."""
    matches: list[dict[str, Any] | None] = pc.extract_regex(
        pa.array(names, pa.string()), pattern
    ).to_pylist()
    return matches


def _searched(item: SourceItem, pattern: str) -> str:
    """The name of a file or member; its path below SRC if the pattern asks for folders."""
    path = item.record_id.rpartition("/")[0] if item.locator.is_split else item.record_id
    return own_path(path) if "/" in pattern else own_name(path)
