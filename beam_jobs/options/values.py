"""The forms in which options are written: paths, sizes, names, splits, qualities, vocabularies."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container
from fractions import Fraction
from typing import TYPE_CHECKING

from foundation import storage
from foundation.options import Form
from foundation.wording import did_you_mean, parse_size
from shard_format import ShardSetError, UsageError
from shard_format.naming import LABELS_SUFFIX, check_name
from shard_format.set_paths import is_in_set

if TYPE_CHECKING:
    from shard_format.schema import Feature

MAX_SPLITS = 127  # planning has one signed byte a record
SPLIT_SUM_TOLERANCE = 1e-6  # fractions are typed by people, in decimal
DEFAULT_QUALITY = 90  # of images that `--quality keep` has to encode
# 4 special tokens and all 256 bytes; WordPiece has every byte twice, at the beginning of a word and
# inside it, and Unigram needs one more.
LEAST_VOCABULARY = {"bpe": 4 + 256, "unigram": 4 + 256 + 1, "wordpiece": 4 + 2 * 256}
MOST_VOCABULARY = 1_000_000

# Features that shardmill writes itself; --keep-columns may not name one, nor a further label.
RESERVED_FEATURES = frozenset("id text image label height width tokens segments positions".split())

_IDS = ("id", "label", "group", "split")  # keys of records of a program

DEFAULT_SPLIT = "train=0.9,test=0.1"  # of a corpus without folders of splits
_COMMA_IN_SHAPE = re.compile(r",(?=[^[\]]*\])")
_MOST_NAME_BYTES = 200  # of a label, whose file is called NAME.labels.txt

_TOP = re.compile(r"(?P<number>\d+)|(?P<percent>\d+(\.\d+)?)%")  # of --top

# --split without fractions: the corpus has its splits already.
SPLIT_BY_FOLDER = "folders"
SPLIT_BY_COLUMN = "column:"
SPLIT_BY_PATTERN = "pattern"  # the group `split` of --label-pattern
NOTHING = "none"  # --against: in place of what the set that is appended to was compared with
_PATTERN_GROUPS = ("label", "split", "group")


def parse_top(text: str) -> Fraction | int:
    """The share of the records that --top keeps, in (0, 1], or their number, at least 1.

    Raises:
        UsageError: The text has another form.
    """
    parts = _TOP.fullmatch(text.strip(), 0)
    number = int(parts["number"] or 0) if parts else 0
    share = Fraction(parts["percent"] or 0) / 100 if parts else Fraction(0)
    if not (number or 0 < share <= 1):
        raise UsageError(
            f"--top is {text!r}. Pass a number of records such as 50000, or a percentage above 0 "
            "and up to 100 such as 10%."
        )
    return number or share


def check_not_empty(flag: str, value: str) -> None:
    """Checks that a text has been given.

    Raises:
        UsageError: It is empty.
    """
    if not value.strip():
        raise UsageError(f"{flag} is empty. Leave it out, or write for instance 'score > 2.5'.")


def parse_splits(text: str | None) -> dict[str, float]:
    """Fractions by split name, in the order given: "train=0.9,test=0.1"; None has the default.

    Raises:
        UsageError: A part is malformed or repeated, there are too many, or the fractions do not
            sum to 1.
    """
    splits: dict[str, float] = {}
    text = text or DEFAULT_SPLIT
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        try:
            fraction = float(number)
        except ValueError:
            fraction = -1.0
        if not equals or not 0 < fraction <= 1:
            raise UsageError(
                f"--split must be NAME=FRACTION parts with fractions in (0, 1], 'folders', or "
                f"'column:NAME', got {part!r}. {'' if equals else _near_split(part)}Write for "
                "instance train=0.9,test=0.1."
            )
        if check_name(name, "a split name") in splits:
            raise UsageError(f"--split names {name!r} twice; name a split once. Remove one.")
        splits[name] = fraction
    if len(splits) > MAX_SPLITS:
        raise UsageError(
            f"--split can name at most {MAX_SPLITS} splits, got {len(splits)}. Join some of them."
        )
    total = sum(splits.values())
    if abs(total - 1) > SPLIT_SUM_TOLERANCE:
        raise UsageError(
            f"--split fractions sum to {total:g}, not 1 ({text}). "
            f"{'Add the missing' if total < 1 else 'Remove the excess'} {abs(1 - total):g}."
        )
    return splits


def _near_split(text: str) -> str:
    """The hint for a --split that is neither fractions nor one of the two ways without them."""
    word, colon, _ = text.partition(":")
    return did_you_mean(f"{word}{colon}", (SPLIT_BY_FOLDER, SPLIT_BY_COLUMN))


def split_column(text: str | None) -> str | None:
    """The column of "column:NAME"; None for any other --split.

    Raises:
        UsageError: The name is missing.
    """
    if text is None or not text.startswith(SPLIT_BY_COLUMN):
        return None
    column = text.removeprefix(SPLIT_BY_COLUMN)
    if not column:
        raise UsageError("--split column: has no column name. Write column:NAME.")
    return column


def splits_are_given(text: str | None) -> bool:
    """Whether the corpus itself says which split a record belongs to."""
    by_name = text in (SPLIT_BY_FOLDER, SPLIT_BY_PATTERN)
    return by_name or (text or "").startswith(SPLIT_BY_COLUMN)


def check_split(flag: str, text: str) -> None:
    """Checks a value of --split.

    Raises:
        UsageError: It is malformed.
    """
    if not splits_are_given(text):
        parse_splits(text)
    split_column(text)


def pattern_groups(pattern: str | None) -> frozenset[str]:
    """The named groups of a --label-pattern: "label", "split" and "group", or some of them.

    Raises:
        UsageError: It is not a regular expression of RE2 that has one of these named groups.
    """
    if pattern is None:
        return frozenset()
    import pyarrow as pa  # not for --help
    import pyarrow.compute as pc

    advice = "Write for instance '(?P<label>[a-z]+)_\\d+\\.jpg', and (?:...) for other groups."
    try:
        groups = pc.extract_regex(pa.array([""]), pattern).type
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise UsageError(
            f"--label-pattern {pattern!r} is not a regular expression that RE2 takes: "
            f"{reason.rstrip('.')}. {advice}"
        ) from None
    names = [field.name for field in groups]
    if not names or len(set(names)) < len(names) or not set(names) <= set(_PATTERN_GROUPS):
        raise UsageError(
            f"--label-pattern {pattern!r} has the named groups {', '.join(names) or '(none)'}. "
            f"It needs one or more of {', '.join(_PATTERN_GROUPS)}, each once. {advice}"
        )
    return frozenset(names)


def parse_quality(value: str | int) -> tuple[bool, int]:
    """(whether JPEGs that need no change keep their bytes, quality of all other images).

    Raises:
        UsageError: The text is neither a whole number from 1 to 100, nor "keep" or "keep:N".
    """
    text = str(value)
    word, colon, number = text.partition(":") if text.startswith("keep") else ("", "", text)
    keeps = word == "keep"
    digits = number if (colon or not keeps) else str(DEFAULT_QUALITY)
    if word not in ("", "keep") or not digits.isdecimal() or not 1 <= int(digits) <= 100:
        raise UsageError(
            f"--quality must be a whole number in [1, 100], 'keep' or 'keep:N', got {text!r}. "
            "Write for instance 90."
        )
    return keeps, int(digits)


def check_path(flag: str, path: str) -> None:
    """Checks that a path or URL can be stored as text and opened by every worker.

    Raises:
        UsageError: It cannot.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{flag} {os.fsencode(path)!r} is not UTF-8. Rename that folder."
        ) from None
    if not path:
        raise UsageError(f"{flag} is an empty path. Write '.' for the working directory.")
    storage.place_of(path)  # a URL of a storage that is not known


def check_id_prefix(flag: str, text: str) -> None:
    """Checks that record ids may begin with a text.

    Raises:
        UsageError: It is empty, hidden, or no path.
    """
    parts = text.split("/")
    if any(not part or part.startswith(".") or not part.isprintable() for part in parts):
        raise UsageError(
            f"{flag} is {text!r}. Give one name, or several separated by '/', such as 2026-11."
        )


def parse_names(flag: str, text: str) -> tuple[str, ...]:
    """The names of "a,b,c", without blanks around them.

    Raises:
        UsageError: A name is empty or repeated.
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(
            f"{flag} must be distinct names separated by commas, got {text!r}. Write for instance "
            "a,b."
        )
    return names


def parse_globs(flag: str, text: str) -> tuple[str, ...]:
    """The globs of "*.jpg,raw/*".

    Raises:
        UsageError: One is empty, repeated or absolute.
    """
    globs = parse_names(flag, text)
    for glob in globs:
        if glob.startswith(("/", "./", "../")):
            raise UsageError(
                f"{flag} {glob!r} is no path below SRC. Write for instance '*.jpg' for names, or "
                "'raw/*' for all below SRC/raw."
            )
    return globs


def check_element(flag: str, text: str) -> None:
    """Checks that a text can be the name of an XML element.

    Raises:
        UsageError: It cannot.
    """
    if not re.fullmatch(r"[^\s<>/&\"'=@]+", text):
        raise UsageError(
            f"{flag} must be the name of an element, got {text!r}. Write for instance page, or "
            "tei:div with its prefix."
        )


def parse_trained(text: str) -> tuple[str, int]:
    """(kind, size of the vocabulary) of "bpe:32000".

    Raises:
        UsageError: The kind is unknown, or the size is out of bounds.
    """
    kind, _, number = text.partition(":")
    least = LEAST_VOCABULARY.get(kind, 0)
    size = int(number) if number.isdecimal() and len(number) < 10 else 0
    if not least or not least <= size <= MOST_VOCABULARY:
        kinds = ", ".join(f"{name}:SIZE (from {low})" for name, low in LEAST_VOCABULARY.items())
        raise UsageError(
            f"--train-tokenizer must be {kinds}, up to {MOST_VOCABULARY:,} tokens, got {text!r}. "
            f"{'' if least else did_you_mean(kind, LEAST_VOCABULARY)}Write for instance bpe:32000."
        )
    return kind, size


def parse_kept(text: str | None) -> tuple[Feature, ...]:
    """The features of --keep-columns, see `parse_features`."""
    return parse_features("--keep-columns", text, RESERVED_FEATURES) if text else ()


def parse_features(flag: str, text: str, reserved: Container[str] = _IDS) -> tuple[Feature, ...]:
    """The features of "author,year:int64,boxes:float32[*,4]"; the default kind is text.

    Args:
        flag: The option, for messages.
        text: Its value.
        reserved: Names that none may have.

    Raises:
        UsageError: A form is none, a name is reserved, or one has the name of a part of another.
    """
    from shard_format.schema import Feature, Schema  # not for --help

    if text.startswith("["):  # of a program, which may say what a form cannot
        try:
            described = {"record_type": "", "features": json.loads(text)}
            return Schema.from_json(described).features
        except (ValueError, RecursionError, ShardSetError) as error:
            raise UsageError(
                f"{flag} {text!r} is no list of features. A name does not begin with '['."
            ) from error
    features = []
    for part in parse_names(flag, _COMMA_IN_SHAPE.sub(";", text)):
        name, _, form = part.rpartition(":") if ":" in part else (part, "", "text")
        if not name or form.startswith("class_label"):
            raise UsageError(
                f"{flag} must be NAME or NAME:KIND, got {part!r}. Write for instance "
                "author,year:int64; labels are kept by --label-column A,B,..., or the key label."
            )
        if name in reserved:
            raise UsageError(
                f"{flag} {name!r} has the name of a feature that shardmill writes itself. "
                "Leave it out, or rename the column."
            )
        features.append(Feature.parse(name, form.replace(";", ",")))
    return Schema("", tuple(features)).features


def parse_caption(text: str) -> tuple[str, bool]:
    """(column, whether it holds lists) of "caption" or "captions[*]".

    Raises:
        UsageError: The name is missing.
    """
    column, several = text.removesuffix("[*]"), text.endswith("[*]")
    if not column:
        raise UsageError(f"--caption-column is {text!r}, without a name. Write NAME or NAME[*].")
    return column, several


def parse_labels(text: str) -> tuple[str, ...]:
    """The columns of "make,colour": the main label first, then those of further label features.

    Raises:
        UsageError: A name is empty or repeated, or cannot be the name of a feature and of its file.
    """
    if "," not in text:
        return (text,)
    names = parse_names("--label-column", text)
    for name in names[1:]:
        if name in RESERVED_FEATURES:
            raise UsageError(
                f"--label-column {name!r} has the name of a feature that shardmill writes itself. "
                "Name it first, for the main label is always stored as 'label', or rename the "
                "column."
            )
        is_file_name = (
            "/" not in name and name.isprintable() and is_in_set(f"{name}{LABELS_SUFFIX}")
        )
        if not is_file_name or len(name.encode()) > _MOST_NAME_BYTES:
            raise UsageError(
                f"--label-column {name[:60]!a} cannot be part of a file name, and the class names "
                "of a label are stored in NAME.labels.txt. Rename the column: no '/' or '\\', no "
                f"drive such as 'c:', at most {_MOST_NAME_BYTES} bytes."
            )
    return names


def _check_files(flag: str, text: str) -> None:
    for path in parse_names(flag, text):
        check_path(flag, path)


def _absolute_files(text: str) -> str:
    paths = (path.strip() for path in text.split(","))
    return ",".join(path if path == NOTHING else storage.absolute(path) for path in paths)


FILE = Form("FILE", check_path, storage.absolute)
FILES = Form("FILE,...", _check_files, _absolute_files)
FOLDER = Form("DIR", check_path, storage.absolute)
SETS = Form("SET", _check_files, _absolute_files)
SIZE = Form("SIZE", parse_size)
NAMES = Form("A,B,...", parse_names)
