"""What is asked for and what is not: URLs, redirects, and what headers forbid or ask for."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Sequence

from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.urls.reasons import BAD_URL
from foundation.extras import naming_extras

with naming_extras():
    import yarl

ROBOTS = "X-Robots-Tag"
_MOST_CHARACTERS = 8000  # of a URL, which servers need not take (RFC 9110, 4.1)

GOOD = (200, 203)
MOVED = (301, 302, 303, 307, 308)
_FORBIDDING = frozenset({"noai", "noimageai", "noindex", "noimageindex"})
# Directives with a value, whose names are no agents.
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
AGENT = "shardmill"


def checked_url(text: str) -> yarl.URL:
    """The URL in a text.

    Raises:
        Rejection: It is none that is fetched: another scheme, a user name, no host.
    """
    if len(text) > _MOST_CHARACTERS:
        raise Rejection(BAD_URL, f"{text[:200]!a} has {len(text)} characters")
    try:
        url = yarl.URL(text)
        named = bool(url.user or url.password)
        usable = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
    except ValueError as error:
        raise Rejection(BAD_URL, f"{text[:200]!a} is no URL: {error}"[:400]) from None
    if named:
        raise Rejection(BAD_URL, f"the URL for {url.host} has a user name in it")
    if not usable:
        raise Rejection(BAD_URL, f"{text[:200]!a} is no URL of http:// or https://")
    return url.with_fragment(None)


def moved(text: str, url: yarl.URL, location: str) -> yarl.URL:
    """Where a redirect leads.

    Raises:
        Rejection: It is no URL that is fetched.
    """
    try:
        joined = str(url.join(yarl.URL(location)))
    except ValueError:
        joined = location
    try:
        return checked_url(joined)
    except Rejection as rejection:
        raise Rejection(BAD_URL, f"{text}: it redirects, and {rejection.detail}") from None


def pause_of(value: str) -> float:
    """Seconds in a Retry-After header (RFC 9110, 10.2.3); 0 if it has none."""
    if value.isdecimal():
        return float(value[:9])
    try:
        when = email.utils.parsedate_to_datetime(value)
        return max(0.0, when.timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def is_opted_out(values: Sequence[str]) -> bool:
    """Whether X-Robots-Tag forbids the use of a file, to all agents or to this one.

    A header may begin with the name of an agent, "shardmill: noai", and has directives with
    commas between them, of which some have a value, "max-image-preview: none".

    Args:
        values: The headers of that name.
    """
    for value in values:
        agent, colon, rest = value.partition(":")
        agent = agent.strip().lower()
        is_named = bool(colon) and not any(mark in agent for mark in ", ") and agent not in _VALUED
        if is_named and agent != AGENT:
            continue
        directives = (rest if is_named else value).split(",")
        if any(one.strip().lower() in _FORBIDDING for one in directives):
            return True
    return False
