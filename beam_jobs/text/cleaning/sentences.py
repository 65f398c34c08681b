"""Where sentences end. What stands here goes between the brackets of a regular expression."""

from __future__ import annotations

# In the scripts that mark it: Latin, CJK, Arabic, Urdu, Devanagari, Ethiopic, Burmese, Khmer,
# Armenian.
TERMINAL = (
    ".!?\u3002\uff01\uff1f\uff0e\uff61\u061f\u06d4\u0964\u0965\u1362\u1367\u104a\u104b\u17d4\u17d5"
    "\u0589"
)
QUOTES = "\"'\u2019\u201d\u00bb\u300d\u300f"
BRACKETS = "\\)\\]\u3011"
# A word that ends a sentence; not one that ends in an ellipsis.
SENTENCE_END = f"(^|[^.])[{TERMINAL}][{QUOTES}{BRACKETS}]*$"
