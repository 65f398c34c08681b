"""The encoding of bytes that declare none and are not UTF-8.

chardet scores all encodings by the pairs of bytes of 49 languages. Its score alone does not say
whether it is right: a name in a short text fits a dozen encodings equally. So the scores become
probabilities here, with the number of bytes that are evidence, with how common an encoding is, and
with how odd the decoded text is. Constants and thresholds: docs/decisions/0015-encodings.md.
"""

from __future__ import annotations

import codecs
import functools
import math
import re
import unicodedata
from typing import NamedTuple

import chardet
from chardet.enums import EncodingEra

from beam_jobs.corpus.record import Rejection

# Left out: EBCDIC, which is no text on any system that has files, and UTF-7.
_ERAS = EncodingEra.ALL & ~EncodingEra.MAINFRAME
_EXCLUDED = ("utf-7",)
_WESTERN = "cp1252"  # the name for a text that several encodings have in common
_CANDIDATES = 24  # of chardet's ranking, in which short texts have many of equal scores
_EVIDENCE_BYTES = 1 << 14  # 16 KiB: chardet's own limit for its statistics
# A score of 1 against 0 weighs this much for every byte that is not ASCII, of so many at most.
_WEIGHT, _MOST_BYTES = 20.0, 20
_FIRST = 2.0  # chardet orders equal scores by rules of its own
_ODD, _MOST_ODDITIES = 4.0, 100
_UNLIKE = 20.0  # of a text that has few of the letters of its language
_FEW_LETTERS, _ENOUGH_LETTERS = 0.34, 50
_QUOTED, _MOST_QUOTED = 1.5, 4
_LOOKED_AT = 1 << 14  # characters of a decoded text
_HOPELESS = 20.0  # a weight so far below the best is a probability of zero
_MOST_ODD = 0.05  # of the characters of UTF-16; bytes that are no text have far more
_THRESHOLD = 0.8
# Logarithms of how much rarer an encoding is than cp1252: those of the WHATWG Encoding Standard,
# other encodings of DOS and the Macintosh, and all others.
_STANDARD, _OLD, _RARE = -2.0, -3.0, -5.0
_PRIORS = {
    **dict.fromkeys(("cp1252", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"), 0.0),
    **dict.fromkeys(("cp1250", "cp1251", *(f"cp125{page}" for page in range(3, 9))), _STANDARD),
    **dict.fromkeys((f"iso8859-{part}" for part in (2, 5, 6, 7, 8, 9, 13, 15)), _STANDARD),
    **dict.fromkeys(("cp866", "cp874", "koi8-r", "koi8-u"), _STANDARD),
    **dict.fromkeys(("mac-roman", "mac-cyrillic"), _STANDARD),
    **dict.fromkeys(("gb18030", "big5", "big5hkscs", "euc_jp", "cp932", "cp949"), _STANDARD),
    **dict.fromkeys(("cp437", "cp737", "cp775", "cp850", "cp852", "cp855"), _OLD),
    **dict.fromkeys(("cp857", "cp858", "cp862", "mac-latin2", "johab"), _OLD),
}
# The name under which an encoding is in use, where that decodes the bytes.
_USUAL = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "euc_kr": "cp949",
    "shift_jis_2004": "cp932",
    "euc_jis_2004": "euc_jp",
    "big5hkscs": "big5",
}
# Declarations were tried before, and contents that chardet knows by their first bytes.
_DECLARING = re.compile(rb"charset|coding", re.I)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# Letters that are not ASCII, of the languages in which chardet finds languages that it does not
# know: for it, Albanian in cp1252 is Lithuanian in cp1257, with letters that Lithuanian lacks.
_ALPHABETS = {
    "cs": "áčďéěíňóřšťúůýž",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "pl": "ąćęłńóśźż",
    "hu": "áéíóöőúüű",
    **dict.fromkeys(("bs", "hr", "sl", "sr"), "čćđšž"),
    "ro": "ăâîşţșț",
    "lt": "ąčęėįšųūž",
    "lv": "āčēģīķļņšūž",
    "et": "äõöüšž",
    "tr": "çği\u0131öşüâîû",
    "eo": "ĉĝĥĵŝŭ",
    "mt": "ċġħż",
}
# Typographic quotation marks and apostrophes as English and French have them.
_QUOTES = re.compile(
    r"\u201c[A-Za-z][^\u201c\u201d]{0,80}\u201d"
    r"|(?<=[A-Za-z])\u2019(?:s|t|re|ve|ll|d|m)\b|\b(?:[cdjlmnst]|qu)\u2019(?=[a-z])",
    re.I,
)
_IN_WORDS = frozenset("\u2019\u02bc\u00b7\u00ad\u2011\u2013\u2014\u200c\u200d")
_HIGH_BYTES = bytes(range(128, 256))


class _Reading(NamedTuple):
    """A text that the bytes may mean, under one name of several."""

    name: str
    text: str
    language: str
    weight: float  # logarithm of a probability, not normalized


def likely_encoding(head: bytes, *, whole: bool) -> str:
    """The encoding of bytes, if one is much likelier than all others.

    Args:
        head: The bytes; not valid UTF-8.
        whole: Whether they are all; else the last character may be cut.

    Raises:
        Rejection: Several encodings fit, or none; the detail names the likeliest.
    """
    readings = _readings(head, whole)
    if not readings:
        raise Rejection("unclear-encoding", "no encoding fits; it may not be text")
    total = sum(math.exp(one.weight - readings[0].weight) for one in readings)
    if 1 / total < _THRESHOLD:
        *names, last = [one.name for one in readings[:3]]
        detail = f"it may be {', '.join(names)} or {last}"
        raise Rejection(
            "unclear-encoding", f"{detail}; convert it to UTF-8, or use --encoding NAME"
        )
    best = readings[0]
    return _WESTERN if _decoded(head, _WESTERN, whole) == best.text else best.name


def wide_encoding(head: bytes, *, whole: bool) -> str:
    """UTF-16 or UTF-32 without a byte order mark in any script; "" if it is neither."""
    name = str(chardet.detect(head, compat_names=False)["encoding"])
    text = _decoded(head, name, whole) if name.startswith(("utf-16", "utf-32")) else None
    if not text or "\0" in text:
        return ""
    begin = text[:_LOOKED_AT]
    return name if _oddities(begin) <= _MOST_ODD * len(begin) else ""


def _readings(head: bytes, whole: bool) -> list[_Reading]:
    """What the bytes may mean, the likeliest first; each text once."""
    scored = chardet.detect_all(
        b"\n" + _DECLARING.sub(b"", head),
        ignore_threshold=True,
        encoding_era=_ERAS,
        max_bytes=len(head) + 1,
        compat_names=False,
        exclude_encodings=_EXCLUDED,
    )
    evidence = head[:_EVIDENCE_BYTES]
    high = len(evidence) - len(evidence.translate(None, _HIGH_BYTES))
    readings = []
    for rank, one in enumerate(scored[:_CANDIDATES]):
        name, text = _usual(str(one["encoding"]), head, whole)
        if text is not None:
            weight = _WEIGHT * min(high, _MOST_BYTES) * one["confidence"] + _FIRST * (rank == 0)
            weight += _PRIORS.get(name, _RARE)
            readings.append(_Reading(name, text, one["language"] or "", weight))
    by_text: dict[str, _Reading] = {}
    best = -math.inf
    for reading in sorted(readings, key=_by_weight):
        if reading.weight > best - _HOPELESS:
            weight = reading.weight + _likeness_to_text(reading)
            if reading.text not in by_text or weight > by_text[reading.text].weight:
                by_text[reading.text] = reading._replace(weight=weight)
            best = max(best, weight)
    return sorted(by_text.values(), key=_by_weight)


def _likeness_to_text(reading: _Reading) -> float:
    """What the characters that are not ASCII, and those around them, add to a weight."""
    begin = reading.text[:_LOOKED_AT]
    odd, weight = _oddities(begin), 0.0
    alphabet = _ALPHABETS.get(reading.language, "")
    letters = [char.lower()[0] for char in _NOT_ASCII.findall(begin) if char.isalpha()]
    if alphabet and letters and _script(letters[0]) == "LATIN":
        odd += sum(char not in alphabet for char in letters)
        own = len(set(letters) & set(alphabet))
        if len(letters) >= _ENOUGH_LETTERS and own < _FEW_LETTERS * len(alphabet):
            weight -= _UNLIKE
    quotes = min(_MOST_QUOTED, len(_QUOTES.findall(begin)))
    return weight + _QUOTED * quotes - _ODD * math.sqrt(min(odd, _MOST_ODDITIES))


def _by_weight(reading: _Reading) -> float:
    return -reading.weight


def _usual(name: str, head: bytes, whole: bool) -> tuple[str, str | None]:
    """The name to use for one of chardet's, and the text; None if it does not decode the bytes."""
    for one in (_USUAL.get(name, name), name):
        text = _decoded(head, one, whole)
        if text is not None:
            return one, text
    return name, None


def _decoded(data: bytes, name: str, whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(name)().decode(data, final=whole)
    except (LookupError, UnicodeError, ValueError):
        return None


def _oddities(text: str) -> int:
    """How many characters are not where text has them; wrong encodings put them there.

    Such as capitals after small letters, symbols inside of words, two scripts in one word, and
    control characters; only of characters that are not ASCII.
    """
    odd = 0
    for match in _NOT_ASCII.finditer(text):
        at, char = match.start(), match[0]
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        kind = unicodedata.category(char)
        if kind[0] == "L":
            odd += (
                (kind == "Lu" and before.islower())
                or (before.isalpha() and not _go_together(_script(before), _script(char)))
                or (after.isascii() and after.isalpha() and not _go_together(_script(char)))
            )
        elif kind in ("Cc", "Co", "Cn", "Cs"):
            odd += 1
        elif kind[0] != "M" and before.isalpha() and after.isalpha():
            odd += char not in _IN_WORDS and _script(char) != "CJK"
    return odd


def _go_together(one: str, other: str = "LATIN") -> bool:
    """Whether a word may have letters of two scripts: Chinese has no spaces around names."""
    return one == other or "CJK" in (one, other)


@functools.cache
def _script(char: str) -> str:
    script = unicodedata.name(char, "").partition(" ")[0].partition("-")[0]
    is_asian = script in ("HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")
    return "CJK" if is_asian else script
