"""Texts of known languages in known encodings, cut to a size: for benchmarks/encodings.py."""

from __future__ import annotations

import gettext
import random
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# 42 encodings, each with languages that were written in it.
_WEST = ("de", "fr", "es", "it", "pt", "nl", "sv", "da", "fi")
_CYRILLIC = ("ru", "bg", "mk", "sr")
ENCODINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("utf-8", "utf-16-le", "utf-16-be", "utf-32-le"), ("de", "ru", "ar", "ja")),
    "cp1252": (*_WEST, "en"),
    "iso8859-15": ("fr", "fi", "de"),
    "mac-roman": ("de", "fr", "es", "sv"),
    "cp437": ("de", "fr", "es"),
    "cp850": ("de", "fr", "es", "da"),
    "cp1250": ("pl", "cs", "sk", "hu", "hr", "ro"),
    "iso8859-2": ("pl", "cs", "sk", "hu", "hr"),
    "cp852": ("pl", "cs", "sk", "hu"),
    "mac-latin2": ("pl", "cs", "hu"),
    "cp1257": ("lt", "lv", "et"),
    "iso8859-13": ("lt", "lv"),
    "cp1254": ("tr",),
    "cp857": ("tr",),
    "cp1251": (*_CYRILLIC, "uk"),
    "koi8-r": ("ru", "bg"),
    "koi8-u": ("uk",),
    "iso8859-5": _CYRILLIC,
    "cp866": ("ru", "bg"),
    "cp855": _CYRILLIC,
    "mac-cyrillic": (*_CYRILLIC, "uk"),
    **dict.fromkeys(("cp1253", "iso8859-7", "cp737"), ("el",)),
    **dict.fromkeys(("cp1255", "cp862"), ("he",)),
    **dict.fromkeys(("cp1256", "iso8859-6"), ("ar",)),
    "cp874": ("th",),
    "cp1258": ("vi",),
    **dict.fromkeys(("cp932", "euc_jp", "iso2022_jp"), ("ja",)),
    **dict.fromkeys(("gb18030", "hz"), ("zh_Hans",)),
    "big5": ("zh_Hant",),
    **dict.fromkeys(("cp949", "johab", "iso2022_kr"), ("ko",)),
}
SIZES = {100: 24, 1000: 12, 10_000: 2}  # bytes, and the samples of an encoding and language
# Files of the Universal Declaration of Human Rights in NLTK's package udhr, and their encodings.
_DECLARATIONS = {
    "en": ("English-Latin1", "cp1252"),
    "de": ("German_Deutsch-Latin1", "cp1252"),
    "fr": ("French_Francais-Latin1", "cp1252"),
    "es": ("Spanish_Espanol-Latin1", "cp1252"),
    "it": ("Italian_Italiano-Latin1", "cp1252"),
    "pt": ("Portuguese_Portugues-Latin1", "cp1252"),
    "nl": ("Dutch_Nederlands-Latin1", "cp1252"),
    "sv": ("Swedish_Svenska-Latin1", "cp1252"),
    "da": ("Danish_Dansk-Latin1", "cp1252"),
    "fi": ("Finnish_Suomi-Latin1", "cp1252"),
    "et": ("Estonian_Eesti-Latin1", "cp1252"),
    "pl": ("Polish-Latin2", "cp1250"),
    "cs": ("Czech-UTF8", "utf-8-sig"),
    "sk": ("Slovak-Latin2", "cp1250"),
    "hu": ("Hungarian_Magyar-UTF8", "utf-8-sig"),
    "hr": ("Croatian_Hrvatski-Latin2", "cp1250"),
    "ro": ("Romanian-Latin2", "iso8859-2"),
    "tr": ("Turkish_Turkce-UTF8", "utf-8-sig"),
    "ru": ("Russian-UTF8", "utf-8-sig"),
    "bg": ("Bulgarian_Balgarski-UTF8", "utf-8-sig"),
    "mk": ("Macedonian-UTF8", "utf-8-sig"),
    "sr": ("Serbian_Srpski-UTF8", "utf-8-sig"),
    "uk": ("Ukrainian-UTF8", "utf-8-sig"),
    "el": ("Greek_Ellinika-UTF8", "utf-8-sig"),
    "he": ("Hebrew_Ivrit-UTF8", "utf-8-sig"),
    "ar": ("Arabic_Alarabia-Arabic", "cp1256"),
    "vi": ("Vietnamese-UTF8", "utf-8-sig"),
    "ja": ("Japanese_Nihongo-UTF8", "utf-8-sig"),
    "zh_Hans": ("Chinese_Mandarin-UTF8", "utf-8-sig"),
    "ko": ("Korean_Hankuko-UTF8", "utf-8-sig"),
}
_PLACEHOLDER = re.compile(r"%(\(\w+\))?[-#0-9.]*[a-zA-Z%]|\{[^}]*\}|<[^>]*>|&\w+;")
_ASCII_PUNCTUATION = {
    ord(char): plain
    for plain, chars in {
        '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb",
        "'": "\u2018\u2019\u201a\u201b\u02bc",
        "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
        "...": "\u2026",
        " ": "\u00a0\u202f\u2009",
        "": "\u200b\u200c\u200d\u200e\u200f\ufeff",
        "\u015f": "\u0219",  # Romanian letters as they were written with a cedilla
        "\u0163": "\u021b",
        "\u015e": "\u0218",
        "\u0162": "\u021a",
    }.items()
    for char in chars
}
# Tones of cp1258, which it writes after the vowel.
_TONES = "\u0300\u0301\u0303\u0309\u0323"


class Sample(NamedTuple):
    """A text in an encoding; `data.decode(encoding) == text`."""

    encoding: str
    language: str
    size: int
    text: str
    data: bytes


def messages(locale: Path) -> dict[str, list[str]]:
    """The translations of Django by language: short texts of its interface.

    Args:
        locale: The folder of the package django.
    """
    languages = sorted({language for found in ENCODINGS.values() for language in found})
    found: dict[str, list[str]] = {}
    english: list[str] = []
    for language in languages:
        texts: list[str] = []
        for file in sorted(locale.rglob(f"locale/{language}/LC_MESSAGES/django.mo")):
            with file.open("rb") as stream:
                catalog = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
            # A message that is not translated is English.
            pairs = [
                (key, text)
                for key, text in sorted(catalog.items(), key=str)
                if key and text != key and isinstance(key, str)
            ]
            texts += [text for _, text in pairs]
            english += [key for key, _ in pairs if language == "de"]
        found[language] = _prose(texts)
    return found | {"en": [_typographic(text) for text in _prose(english)]}


def _prose(texts: list[str]) -> list[str]:
    """Texts without placeholders, each once."""
    return [" ".join(_PLACEHOLDER.sub(" ", text).split()) for text in dict.fromkeys(texts)]


def _typographic(text: str) -> str:
    """English with the quotation marks, apostrophes and dashes of a word processor."""
    text = re.sub(r'"([^"]*)"', "\u201c\\1\u201d", text)
    return text.replace("'", "\u2019").replace(" - ", " \u2013 ")


def declarations(folder: Path) -> dict[str, list[str]]:
    """The paragraphs of the Declaration of Human Rights by language: prose."""
    found = {}
    for language, (name, encoding) in _DECLARATIONS.items():
        text = (folder / name).read_bytes().decode(encoding, "ignore")
        found[language] = [line.strip() for line in text.splitlines() if line.strip()]
    # It has no apostrophe, so it gets some.
    english = [text.replace("State", "State's") for text in found["en"]]
    return found | {"en": [_typographic(text) for text in english]}


def samples(texts: dict[str, list[str]], seed: int) -> Iterator[Sample]:
    """Samples of every encoding, language and size, each with letters that are not ASCII."""
    for encoding, languages in ENCODINGS.items():
        for language in languages:
            if language not in texts:
                continue
            generator = random.Random(f"{seed} {encoding} {language}")
            usable = [one for text in texts[language] if (one := _encodable(text, encoding))]
            for size, count in SIZES.items():
                for _ in range(count):
                    if sample := _sample(usable, encoding, language, size, generator):
                        yield sample


def _encodable(text: str, encoding: str) -> str:
    """A text with the letters and the punctuation of an encoding; "" if it lacks some."""
    if encoding == "cp1258":
        text = _with_tones(text)
    for one in (text, text.translate(_ASCII_PUNCTUATION)):
        try:
            if one.encode(encoding).decode(encoding) == one:
                return one
        except UnicodeError:
            continue
    return ""


def _with_tones(text: str) -> str:
    """Vietnamese as cp1258 has it: a tone is a character of its own."""
    found = ""
    for char in text:
        parts = unicodedata.normalize("NFD", char)
        tones = "".join(part for part in parts if part in _TONES)
        rest = "".join(part for part in parts if part not in _TONES)
        found += unicodedata.normalize("NFC", rest) + tones
    return found


def _sample(
    usable: list[str], encoding: str, language: str, size: int, generator: random.Random
) -> Sample | None:
    for _ in range(20):
        start = generator.randrange(len(usable)) if usable else 0
        order = usable[start:] + usable[:start]
        text, total = "", 0
        for one in order:
            total += len(one.encode(encoding)) + 1
            text += one + "\n"
            if total > size:
                break
        while text and len(text.encode(encoding)) > size:
            over = len(text.encode(encoding)) - size
            text = text[: -max(1, over // 4)]
        data = text.encode(encoding)
        stateful = encoding in ("hz", "iso2022_jp", "iso2022_kr")
        if len(data) >= 0.7 * size and (stateful or not data.isascii()):
            return Sample(encoding, language, size, text, data)
    return None
