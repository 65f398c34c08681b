"""Foreign text, numbers and sizes as people read and write them, in a terminal or on a page.

Names of files and classes come from the corpus. A terminal obeys control characters, and in a
browser one right-to-left mark turns a whole line around, so they are shown as escapes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from foundation.errors import UsageError

_LONGEST_NAME = 60  # characters of a suggestion
_MOST_NAMES, _FIRST_NAMES = 8, 3  # of a list
_SIZE_STEP = 1024
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]i?B|B)?", re.IGNORECASE)
_SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def visible(text: str) -> str:
    r"""The text with an escape for every invisible character: "a\x1b" becomes "a\\x1b".

    Control, format and direction characters, line breaks, lone surrogates and unassigned code
    points are escaped. It is idempotent.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def shortened(text: str, limit: int) -> str:
    """The text in at most `limit` characters: its beginning, three dots, its end."""
    if len(text) <= limit:
        return text
    head = (limit - 3) // 2
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: "1 class", "1,000 classes"; `many` is `one` with an s if None."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def some_of(names: Sequence[str]) -> str:
    """Names for a message: all of a few, else the first and how many more there are."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_FIRST_NAMES])} and {len(names) - _FIRST_NAMES:,} more"


def did_you_mean(value: str, names: Iterable[str]) -> str:
    """The question "Did you mean 'label'?" for the name nearest to a value, and a blank behind it.

    It is empty if no name is near. Case does not count, and the beginning of a name is near to it.
    """
    by_fold: dict[str, str] = {}
    for name in names:
        by_fold.setdefault(name.casefold(), name)
    fold = value.casefold()
    near = difflib.get_close_matches(fold, by_fold, n=1)
    near += [name for name in by_fold if len(fold) > 1 and name.startswith(fold)]
    return f"Did you mean {shortened(by_fold[near[0]], _LONGEST_NAME)!r}? " if near else ""


def is_share(name: str, value: object) -> bool:
    """Whether a statistic of this name is a fraction."""
    named = name in ("coverage", "unknown") or name.endswith("share")
    return named and isinstance(value, float) and 0 <= value <= 1


def statistic(name: str, value: object) -> str | None:
    """A statistic for people: "1,024", "0.25", or "12.50%" if it is a share.

    Text, such as the name of a file, becomes `visible`; any other value None.
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if is_share(name, value):
        return f"{value:.2%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def format_bytes(size: float) -> str:
    """A size for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < _SIZE_STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _SIZE_STEP
    return f"{size:.1f} TiB"


def duration(seconds: float) -> str:
    """A time for people: "42 s", "3:07" minutes, "2:15:09" hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def parse_size(flag: str, text: str) -> int:
    """Bytes of a size such as "128MiB", "1.5 GB" or "4096".

    Raises:
        UsageError: The text is not a size, or zero.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _SIZE_UNITS[(match[2] or "B").lower()]) if match else 0
    if size < 1:
        raise UsageError(
            f"{flag} {text!r} is not a size. Write a number with a unit B, KiB, MiB, GiB or TiB, "
            "for example 128MiB."
        )
    return size
