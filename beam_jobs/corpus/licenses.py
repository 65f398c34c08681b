"""Licenses of records, in the many forms in which a corpus names the same one."""

from __future__ import annotations

import re
from collections.abc import Container

from beam_jobs.corpus.record import FILTER, Rejection

# The identifiers of https://spdx.org/licenses, in lower case, for the texts of Creative Commons.
_CREATIVE_COMMONS = re.compile(
    r"creativecommons\.org/licenses/([a-z-]+)/(\d\.\d)(?:/([a-z]{2})\b)?"
)
_PUBLIC_DOMAIN = re.compile(r"creativecommons\.org/publicdomain/(zero|mark)/(\d\.\d)")
_SPDX = re.compile(r"spdx\.org/licenses/([a-z0-9.+-]+?)(?:\.html|\.json)?/?$")
_BETWEEN = re.compile(r"[\s_-]+")


def license_id(text: str) -> str:
    """The SPDX identifier of a license in lower case, or what comes nearest to one.

    "CC BY 4.0", "cc-by-4.0" and "https://creativecommons.org/licenses/by/4.0/deed.de" are
    "cc-by-4.0". That a name is one of SPDX is not checked.
    """
    name = text.strip().lower()
    if match := _CREATIVE_COMMONS.search(name):
        return "-".join(part for part in ("cc", *match.groups()) if part)  # "us": a ported text
    if match := _PUBLIC_DOMAIN.search(name):
        return f"cc0-{match[2]}" if match[1] == "zero" else f"cc-pdm-{match[2]}"
    if match := _SPDX.search(name):
        return match[1]
    return _BETWEEN.sub("-", name)


def check_license(text: str, allowed: Container[str]) -> None:
    """Checks that a record has a license that is required.

    Args:
        text: Its license as the corpus has it; "" without one.
        allowed: Results of `license_id`.

    Raises:
        Rejection: It has none, or another one.
    """
    if not text.strip():
        raise Rejection("no-license", "nothing says its license", stage=FILTER)
    if license_id(text) not in allowed:
        raise Rejection("other-license", f"its license is {text[:80]!r}", stage=FILTER)
