"""Names of character encodings, as options take them."""

from __future__ import annotations

import codecs

from shard_format import UsageError

AUTO = "auto"
# Codecs from text to text.
_NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "rot13")


def check_encoding(flag: str, name: str) -> None:
    """Returns if text can be in an encoding of this name.

    Raises:
        UsageError: Python knows none.
    """
    if name == AUTO:
        return
    try:
        known = codecs.lookup(name)
        "\n".encode(name)
        is_text = isinstance(known.decode(b"")[0], str) and known.name not in _NO_ENCODINGS
    except (LookupError, TypeError, ValueError):
        is_text = False
    if not is_text:
        raise UsageError(
            f"{flag} must be one that Python knows, or auto, got {name!r}. Write for instance "
            "utf-8, cp1252, gb18030 or utf-16."
        )
