"""What a tokenizer file may ask for, checked before a library loads it.

A tokenizer is as untrusted as the documents. Its file says how large tables become (one row for
each id) and how much longer it makes a text, and a library does what the file says. So both are
bounded by what the file says, without loading it: a trial in a process with a memory limit would
cost each start a second, and show only what happens to the texts of the trial.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

from foundation import storage
from foundation.storage import Place
from shard_format.example import message_fields

# The largest that are in use have 33 MB and 262,144 ids (Gemma); --train-tokenizer makes up to a
# million.
MOST_BYTES = 64 << 20  # 64 MiB
MOST_IDS = 1 << 20
# Times: a few for each rule that replaces a space. NFKC makes one letter 33 bytes.
MOST_GROWTH = 256
_MOST_AFFIX = 1 << 10  # characters that a model adds to each piece
_AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")
_PARTS = ("normalizer", "decoder")
_LISTS = ("normalizers", "decoders")
# Tags of fields 3 and 5 of SentencePiece's ModelProto, and of their rules, field 2.
_NORMALIZER_SPECS = (0x1A, 0x2A)
_CHARSMAP = 0x12


def read_tokenizer_file(place: Place) -> bytes:
    """The content of a tokenizer file, after `check_tokenizer`.

    Raises:
        ValueError: It is above a bound.
        OSError: It cannot be read.
    """
    info = storage.stat(place)
    if info is not None and info.size > MOST_BYTES:
        raise ValueError(f"it has {info.size:,} bytes, more than {MOST_BYTES:,}")
    content = storage.read_bytes(place)
    check_tokenizer(content)
    return content


def check_tokenizer(content: bytes) -> None:
    """Checks how much longer a tokenizer may make a text; what is no tokenizer passes.

    Raises:
        ValueError: By more than a bound.
    """
    if content.lstrip()[:1] == b"{":
        try:
            described = json.loads(content)
        except (ValueError, RecursionError):
            return  # the library says what is wrong
        for name in _PARTS:
            _check_growth(_growth(described.get(name)), f"its {name}")
        model = described.get("model")
        for name in _AFFIXES if isinstance(model, dict) else ():
            if isinstance(model.get(name), str) and len(model[name]) > _MOST_AFFIX:
                raise ValueError(f"its {name} has {len(model[name]):,} characters")
        return
    for spec in _fields(content, _NORMALIZER_SPECS):
        for charsmap in _fields(spec, (_CHARSMAP,)):
            _check_growth(_longest_replacement(charsmap), "its normalizer")


def check_ids(size: int) -> None:
    """Checks the number of ids of a tokenizer: one more than the largest.

    Raises:
        ValueError: There are none, or more than a bound.
    """
    if not 0 < size <= MOST_IDS:
        largest = "it has no tokens" if size < 1 else f"its largest id is {size - 1:,}"
        raise ValueError(f"{largest}; ids from 0 to {MOST_IDS - 1:,} can be used")


def _check_growth(growth: int, what: str) -> None:
    if growth > MOST_GROWTH:
        raise ValueError(
            f"{what} may make a text {min(growth, 10**18):,} times as long, more than {MOST_GROWTH}"
        )


def _growth(part: Any) -> int:
    """How many times as long a part of a tokenizer.json may make a text, in bytes, at most."""
    if not isinstance(part, dict):
        return 1
    growth = 1
    for name in _LISTS:
        for inner in part[name] if isinstance(part.get(name), list) else ():
            growth = min(growth * _growth(inner), 10**18)
    if part.get("type") == "Replace":
        pattern = part.get("pattern")
        literal = pattern.get("String") if isinstance(pattern, dict) else None
        size = _size(part.get("content"))
        # An expression may match between any two bytes.
        growth *= max(1, -(-size // _size(literal))) if literal else 1 + size
    elif part.get("type") == "Prepend":
        growth *= 1 + _size(part.get("prepend"))
    elif part.get("type") == "Precompiled":
        try:
            growth *= _longest_replacement(base64.b64decode(part["precompiled_charsmap"]))
        except (KeyError, TypeError, ValueError):
            pass  # the library says what is wrong
    return growth


def _size(text: Any) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 1


def _longest_replacement(charsmap: bytes) -> int:
    """The bytes of the longest replacement: they are at the end, each with a zero behind it."""
    trie = int.from_bytes(charsmap[:4], "little")
    return max(1, *map(len, charsmap[4 + trie :].split(b"\0")))


def _fields(message: bytes, tags: Sequence[int]) -> Iterator[bytes]:
    """Yields the contents of some fields of a protobuf message, up to damage."""
    fields = message_fields(message)
    while True:
        try:
            tag, content = next(fields)
        except (StopIteration, ValueError, IndexError):  # the library says what is wrong
            return
        if tag in tags and isinstance(content, bytes):
            yield content
