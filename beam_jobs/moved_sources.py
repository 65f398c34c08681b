"""The sources of each build of a set, and where they are now, if they have moved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from beam_jobs.corpus.discovery import expand_globs
from foundation import storage
from foundation.storage import Place
from shard_format import UsageError

MERGED_KEY = "merged_options"  # in build.json, of a set that was made of several builds
# Options that say what a build has read, and how its records are called.
OF_SOURCES = ("sources", "source", "id_prefix")


def merged_options(build: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sources and what belongs to them, of each build that was merged into a set, in order.

    Args:
        build: The content of its build.json, or of one to merge.
    """
    if MERGED_KEY in build:
        return list(build[MERGED_KEY])
    options = build.get("options")
    return [{name: options[name] for name in OF_SOURCES if name in options}] if options else []


def known_sources(options: Mapping[str, Any] | None) -> list[str]:
    """The sources in the options of a build."""
    return list((options or {}).get("sources", ()))


def located(known: Sequence[str], given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Where the sources of a build are now, and which of them are nowhere.

    Each is the given one with the name of its folder or file; of several with this name, that with
    the most folders in common. One that is not given may be where it was.

    Args:
        known: The sources when the set was built.
        given: Where sources are now.
    """
    left, now, missing = list(given), [], []
    for source in known:
        place = storage.place_of(source)
        same = [one for one in left if storage.place_of(one).name == place.name]
        if same:
            best = max(same, key=lambda one: _common(source, one))
            left.remove(best)
            now.append(best)
        elif storage.exists(place):
            now.append(source)
        else:
            missing.append(source)
    return now, missing


def _common(one: str, other: str) -> int:
    """How many names at their ends two paths have in common."""
    parts = [list(reversed(path.rstrip("/").split("/"))) for path in (one, other)]
    pairs = zip(*parts, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def sources_now(build: Mapping[str, Any], given: Sequence[str]) -> Sequence[str]:
    """The sources of one of several builds of a set; empty if they are where they were.

    All given ones if some of the build's are gone, and not all of these are named.

    Args:
        build: The content of its build.json.
        given: Where the sources of all builds are now.
    """
    known = known_sources(build.get("options"))
    now, missing = located(known, given)
    if missing or not known:
        return given
    return () if now == known else now


def replayed_sources(
    directory: Place, builds: Sequence[Sequence[str]], given: Sequence[str]
) -> list[list[str]]:
    """Where the sources of all builds of a set are now, for a set that takes its place.

    Args:
        directory: The set.
        builds: The sources of each when it was built.
        given: Where they are now; a set of a single source has any.

    Raises:
        UsageError: A source is nowhere, or a given one is none of them.
    """
    given = expand_globs(given)
    everything = list(dict.fromkeys(source for known in builds for source in known))
    if len(everything) <= 1:
        return [list(given) for _ in builds]
    now, missing = located(everything, given)
    if missing:
        raise UsageError(
            f"{directory} was built from {len(everything)} sources, and {', '.join(missing)} is "
            "neither there nor named by --sources. Name each SRC by a path that ends with the "
            "name it had; a set without it would have fewer records."
        )
    strange = [source for source in given if source not in now]
    if strange:
        raise UsageError(
            f"{directory} was built from {', '.join(everything)}, and {', '.join(strange)} has the "
            "name of none of them. Name each SRC by a path that ends with the name it had."
        )
    place_of = dict(zip(everything, now, strict=True))
    return [[place_of[source] for source in known] for known in builds]
