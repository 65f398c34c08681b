"""What the masking steps share: a pattern, and what is put in its place.

Python's expressions look around a match, which RE2 cannot; so RE2 finds the documents that may have
one, and only these are looked through.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from beam_jobs.text.cleaning.base import Texts


def mask(
    texts: Texts,
    hint: str,
    pattern: re.Pattern[str],
    token: str,
    holds: Callable[[str], bool] = lambda found: True,
) -> None:
    """Puts a token in the place of what is found.

    Args:
        texts: The documents.
        hint: Expression of RE2 that is found in every document with a match.
        pattern: What is masked.
        token: Put in its place.
        holds: Whether something that was found is meant.
    """

    def replaced(match: re.Match[str]) -> str:
        return token if holds(match[0]) else match[0]

    texts.replace_where(texts.measured.matching(hint), lambda text: pattern.sub(replaced, text))
