"""Foreign text and sizes as people see them, in a terminal or on a page.

Names of files and classes come from whoever made the corpus. A terminal obeys control characters,
and a browser lets one right-to-left mark turn a whole line around, so nothing of the kind is shown.
"""

from __future__ import annotations

_SIZE_STEP = 1024


def visible(text: str) -> str:
    r"""The text with every character that is not seen as an escape: "a\x1b" becomes "a\\x1b".

    Control, format and direction characters, line breaks, lone surrogates and unassigned code
    points are escaped. Doing it twice changes nothing.
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


def is_share(name: str, value: object) -> bool:
    """Whether a statistic of this name is a part of 1."""
    named = name in ("coverage", "unknown") or name.endswith("share")
    return named and isinstance(value, float) and 0 <= value <= 1


def statistic(name: str, value: object) -> str | None:
    """A statistic for people: "1,024", "0.25", "12.50%" if it is a share; None if it is no number.

    Names of files among them are text, made visible.
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
