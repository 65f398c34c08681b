"""A visible dict of members whose modules are loaded when they are used.

    PACKINGS: Members[Packing] = Members(
        {
            "concat": "beam_jobs.text.packings.concat:concat",
            "best-fit": "beam_jobs.text.packings.best_fit:best_fit",
        }
    )

So the names of the members, which are the values of an option, are listed once, and --help has them
without loading a decoder. tests/foundation/test_options.py loads every member of every such dict.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

Member = TypeVar("Member", covariant=True)


class Members(Mapping[str, Member]):
    """Members by name, each given as "package.module:attribute"."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)

    def __getitem__(self, name: str) -> Member:
        module, _, attribute = self._places[name].partition(":")
        return cast(Member, getattr(importlib.import_module(module), attribute))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"Members({self._places!r})"
