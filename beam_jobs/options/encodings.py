"""Names of character encodings, as options take them."""

from __future__ import annotations

import codecs

from foundation.wording import did_you_mean
from shard_format import UsageError

AUTO = "auto"
# Codecs from text to text.
_NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "rot13")
# Python knows 200 names; these are in use, and so likely to be meant.
_USUAL = (
    *("auto", "ascii", "utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "mac-roman"),
    *(f"iso-8859-{part}" for part in (1, 2, 5, 7, 8, 9, 15)),
    *(f"{prefix}125{page}" for prefix in ("cp", "windows-") for page in range(9)),
    *("big5", "gbk", "gb2312", "gb18030", "shift-jis", "euc-jp", "euc-kr", "koi8-r", "koi8-u"),
)


def check_encoding(flag: str, name: str) -> None:
    """Checks that text can be in an encoding of this name.

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
            f"{flag} must be one that Python knows, or auto, got {name!r}. "
            f"{did_you_mean(name, _USUAL)}Write for instance utf-8, cp1252, "
            "gb18030 or utf-16."
        )
