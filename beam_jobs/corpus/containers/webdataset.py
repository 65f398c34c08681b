"""Archives in WebDataset form: members with the same key (0001.jpg, 0001.cls) are one record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from beam_jobs.corpus.containers.archive_index import COMPANIONS, ArchiveIndex, split_key
from beam_jobs.corpus.containers.base import NO_BYTES, Member
from beam_jobs.corpus.record import Rejection

_MAX_COMPANION_BYTES = 16 << 20  # 16 MiB; a label is shorter


class MemberGroup:
    """One record of an archive.

    Attributes:
        member: Its payload.
        companions: Extension and member of what describes it.
        rejection: Why it cannot be used, or None.
    """

    def __init__(
        self,
        member: Member,
        companions: tuple[tuple[str, Member], ...] = (),
        rejection: Rejection | None = None,
    ) -> None:
        self.member = member
        self.companions = companions
        self.rejection = rejection


def member_groups(
    index: ArchiveIndex,
    is_primary: Callable[[str], bool],
    *,
    needs_one: bool,
    needs_companion: bool,
    on_ignored: Callable[[str], None],
) -> Iterator[MemberGroup]:
    """The records of an archive.

    Args:
        index: Its members.
        is_primary: Whether a member is a payload, by its name.
        needs_one: Whether several payloads with one key are rejected, for a label is of one.
        needs_companion: Whether a payload without companion is rejected.
        on_ignored: Called with the name of every member that is neither.
    """
    key, group = "", list[Member]()
    for member in index:
        if member.reason:
            yield MemberGroup(member, rejection=Rejection(member.reason, member.detail))
            continue
        own_key, _ = split_key(member.name)
        if own_key != key:
            yield from _records(group, is_primary, needs_one, needs_companion, on_ignored)
            key, group = own_key, []
        group.append(member)
    yield from _records(group, is_primary, needs_one, needs_companion, on_ignored)


def _records(
    group: list[Member],
    is_primary: Callable[[str], bool],
    needs_one: bool,
    needs_companion: bool,
    on_ignored: Callable[[str], None],
) -> Iterator[MemberGroup]:
    """The record that the members of one key are; several if they do not make one."""
    by_extension = {split_key(member.name)[1]: member for member in group}
    primary = [member for member in group if is_primary(member.name)]
    exact = [member for member in primary if "." not in split_key(member.name)[1]]
    if len(exact) == 1 and needs_one:
        primary = exact  # next to 7.jpg, a 7.seg.png is a mask
    found = tuple(
        (name, by_extension[name])
        for name in COMPANIONS
        if name in by_extension
        and by_extension[name].size != NO_BYTES
        and by_extension[name].size <= _MAX_COMPANION_BYTES
    )
    rejection = None
    if not primary:
        rejection = Rejection("no-picture", "no image has the same key")
        primary = group
    elif len(primary) > 1 and needs_one:
        rejection = Rejection("several-pictures", f"{len(primary)} images have one key")
    elif needs_companion and not found:
        detail = f"no {', '.join(COMPANIONS)} has the same key"
        rejection = Rejection("no-companion", detail)
    for member in group:
        if member in primary:
            yield MemberGroup(member, found, rejection)
        elif split_key(member.name)[1] not in COMPANIONS:
            on_ignored(member.name)
