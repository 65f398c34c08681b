"""An archive: a file with members, each of which may hold records."""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterator
from typing import NamedTuple

from beam_jobs.corpus.names import member_name
from beam_jobs.corpus.record import ByteRange, Locator, Rejection, SourceItem
from beam_jobs.corpus.streams import RawStream
from beam_jobs.options.formats import CONTAINERS

NO_BYTES = -1  # the size of a member without bytes of its own (a link, a device)


class Member(NamedTuple):
    """One file of an archive.

    Attributes:
        name: Its safe name (`names.member_name`).
        locator: Where its bytes are.
        reason: Why it cannot be used, or "".
        detail: What was found then.
        copy: 2 for the second member of that name, and so on.
    """

    name: str
    locator: Locator
    reason: str = ""
    detail: str = ""
    copy: int = 1


class ArchiveReport:
    """What listing an archive finds out besides its members; complete once all were given.

    Attributes:
        codec: Compression around the archive; its members can then be read in order only.
        damage: Why a part of it cannot be read; None if all of it can.
        gaps: The ranges of that part; none if they are not known.
    """

    codec = ""
    damage: Rejection | None = None
    gaps: tuple[ByteRange, ...] = ()


class Container(abc.ABC):
    """One archive format."""

    @abc.abstractmethod
    def members(self, file: SourceItem, report: ArchiveReport) -> Iterator[Member]:
        """The files of an archive, in its order.

        Args:
            file: The archive.
            report: Receives what else is found.

        Raises:
            Rejection: It cannot be read at all.
            UnreadableError: Likewise, because of an I/O error.
        """

    @abc.abstractmethod
    def open(self, path: bytes, locator: Locator) -> RawStream:
        """The bytes of a member, in an archive that is not compressed as a whole."""


@functools.cache
def container(name: str) -> Container:
    """The archive format of a name in `CONTAINERS`."""
    made: Container = CONTAINERS[name].load()()
    return made


def make_member(raw_name: bytes, kind: str, locator: Locator) -> Member:
    """A member with its safe name; rejected if unpacking it would write outside of the archive.

    Args:
        raw_name: As the archive spells it.
        kind: "" of a regular file; otherwise its kind: "a symbolic link", ...
        locator: Where its bytes are.
    """
    member = Member(member_name(raw_name) or "//unnamed", locator)
    if kind:
        return member._replace(reason="unsafe-member", detail=f"it is {kind}")
    if raw_name.startswith(b"/") or b".." in raw_name.split(b"/"):
        shown = raw_name.decode("utf-8", "backslashreplace")[:200]
        detail = f"the name {shown!r} leads out of the archive"
        return member._replace(reason="unsafe-member", detail=detail)
    return member
