"""The sources of each build of a set, and where they are now, if they have moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shard_format import storage

MERGED_KEY = "merged_options"  # in build.json, of a set that was made of several builds
# Options that say what a build has read, and how its records are called.
OF_SOURCES = ("sources", "source", "id_prefix")


def merged_options(build: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sources and what belongs to them, of each build that was merged into a set, in order.

    Args:
        build: The content of its build.json, or of one to merge.
    """
    merged = build.get(MERGED_KEY)
    if isinstance(merged, list):
        return [one for one in merged if isinstance(one, dict)]
    options = build.get("options")
    if not isinstance(options, Mapping):
        return []
    return [{name: options[name] for name in OF_SOURCES if name in options}]


def sources_now(build: Mapping[str, Any], given: Sequence[str]) -> Sequence[str]:
    """The sources of one of several builds of a set; empty if they are where they were.

    They are the given ones with the names of its folders and files; all given if the sources of
    the build are gone, and not all of them are named.

    Args:
        build: The content of its build.json.
        given: Where the sources of all builds are now.
    """
    options = build.get("options")
    before = options.get("sources") if isinstance(options, Mapping) else None
    known = [str(source) for source in before] if isinstance(before, list | tuple) else []
    by_name = {storage.place_of(source).name: source for source in given}
    names = [storage.place_of(source).name for source in known]
    if known and all(name in by_name for name in names):
        return [by_name[name] for name in names]
    is_there = known and all(storage.exists(storage.place_of(source)) for source in known)
    return () if is_there else given
