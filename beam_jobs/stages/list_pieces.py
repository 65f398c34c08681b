"""A large corpus, which many workers list in pieces.

Its first piece is listed like a small corpus. What is left of the walk then, pieces of folders, is
listed by any workers; what a piece has left beyond its bound are further pieces. Once all are
listed, the sizes of all items are known, and each piece is cut into units by itself. So files with
a checksum are all that workers exchange, and a task is done again from inputs that do not change.

    listed-00017.json    counts of a piece, and what it has left
    left-00017.slices    the pieces that it has left, one behind the other
    cutting.json         what decides how pieces are cut
    cut-00017.json       what its units are made of
    units-00017.arrow    its units
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.changes import join_summaries
from beam_jobs.corpus.pieces import CorpusPiece
from beam_jobs.job_context import JobContext
from beam_jobs.progress import SteadyReports, report
from beam_jobs.stages.listing_file import (
    CutListing,
    Cutting,
    WrittenListing,
    cut_listing,
    join_endings,
    write_listing,
)
from beam_jobs.staging.item_list import finish_sending, send_hashes
from beam_jobs.staging.seen_items import SeenItemFilter
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import read_marker, read_planned_marker, write_marker, write_table
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, file_sha256, frame, unframe


class PieceTask(NamedTuple):
    """What a worker does with a piece of the corpus.

    Attributes:
        number: Number of the piece.
        weight: How long it takes, about, in small files.
        cuts: Whether its listing is cut into units; it is listed otherwise.
        source: Number of the piece that has left it.
        begin: Where it begins in what that piece has left.
        size: Its bytes there.
    """

    number: int
    weight: int
    cuts: bool
    source: int = 0
    begin: int = 0
    size: int = 0


# Has workers do all of some tasks.
DoTasks = Callable[[Sequence[PieceTask]], None]


def do_piece(task: PieceTask, context: JobContext) -> None:
    """Lists a piece, or cuts its listing; doing it again changes nothing.

    Raises:
        InputError: A source cannot be listed, or a file of the workspace is damaged.
    """
    if task.cuts:
        _cut(task, context)
    else:
        _list(task, context)


def list_rest(
    context: JobContext,
    first: WrittenListing,
    rest: Iterator[tuple[CorpusPiece, int]],
    do_tasks: DoTasks,
    on_progress: Callable[[int], None],
) -> dict[int, WrittenListing]:
    """Lists what the first piece of a corpus has left.

    Args:
        context: The job.
        first: The first piece, which is listed.
        rest: What it has left, with weights.
        do_tasks: Has workers do tasks.
        on_progress: Called with the number of items so far.

    Returns:
        All pieces by their numbers, in the order of the listing.

    Raises:
        InputError: A runner lost a task, or a source cannot be listed.
    """
    listed = {0: first}
    storage.delete_tree(context.workspace.pieces)  # of a build that was killed
    storage.make_folder(context.workspace.pieces)
    _store(context, 0, first, rest)
    report(context.workspace.progress, "list", first.items)
    left: dict[int, list[int]] = {}
    numbers = itertools.count(1)
    sources = [0]
    while sources:
        tasks: list[PieceTask] = []
        for source, result in zip(sources, _results(context, "listed", sources), strict=True):
            listed[source] = _written(result)
            own = _left(source, result["left"], numbers)
            left[source] = [task.number for task in own]
            tasks += own
        on_progress(sum(one.items for one in listed.values()))
        if tasks:
            do_tasks(tasks)
        sources = [task.number for task in tasks]
    return {number: listed[number] for number in _in_order(left)}


def cut_pieces(
    context: JobContext,
    listed: Mapping[int, WrittenListing],
    cutting: Cutting,
    do_tasks: DoTasks,
) -> CutListing:
    """Cuts all pieces of a corpus into units.

    Args:
        context: The job.
        listed: All pieces, in the order of the listing.
        cutting: What decides where they are cut.
        do_tasks: Has workers do tasks.

    Raises:
        InputError: A runner lost a task, or a file of the workspace is damaged.
    """
    write_marker(context.workspace, _place(context, "cutting", None), cutting._asdict())
    do_tasks([PieceTask(number, one.items, cuts=True) for number, one in listed.items()])
    numbers = list(listed)
    results = list(_results(context, "cut", numbers))
    units = [
        _checked_units(context, number, result["sha256"])
        for number, result in zip(numbers, results, strict=True)
    ]
    if cutting.item_parts > 1:
        sent = dict(zip(numbers, results, strict=True))
        finish_sending(context.workspace, [sent[number]["sent"] for number in sorted(sent)])
    sums = np.array([result["sums"] for result in results], np.uint64).sum(axis=0)
    sources = join_summaries([result["sources"] for result in results])
    endings = join_endings(result["endings"] for result in results)
    return CutListing(pa.concat_tables(units), sources, sums.tolist(), endings)


def _list(task: PieceTask, context: JobContext) -> None:
    place, end = _slices(context, task.source), task.begin + task.size
    with dropping_damaged(lambda: None):  # every build writes it again
        content = storage.read_range(place, task.begin, task.size)
        piece = CorpusPiece.of_bytes(unframe(content, f"{place} from {task.begin} to {end}"))
    reports, done = SteadyReports(context.workspace.progress, "list"), 0

    def count(items: int) -> None:
        nonlocal done
        reports.add(items - done)
        done = items

    seen, most = _seen_items(context), bounds.LISTED_FILES
    written, rest = write_listing(context, task.number, piece, seen, most, count)
    _store(context, task.number, written, rest)
    reports.flush()


def _cut(task: PieceTask, context: JobContext) -> None:
    workspace, number = context.workspace, task.number
    cutting = Cutting(**read_planned_marker(_place(context, "cutting", None)))
    (result,) = _results(context, "listed", [number])
    with workspace.local_copy(workspace.listing_of(number)) as listing:
        with dropping_damaged(lambda: None):  # every build writes it again
            workspace.check_file(listing, result["sha256"])
        cut = cut_listing(context, number, listing, _written(result), cutting)
    place = _units(context, number)
    write_table(workspace, place, cut.units)
    made: dict[str, Any] = {"sha256": file_sha256(place)}
    made |= {"sources": cut.sources, "sums": cut.sums, "endings": cut.endings}
    if cutting.item_parts > 1:
        made["sent"] = send_hashes(workspace, number, cutting.item_parts)
    write_marker(workspace, _place(context, "cut", number), {"run": context.run_id, **made})


@functools.lru_cache(maxsize=1)
def _seen_items(context: JobContext) -> SeenItemFilter:
    """The filter of a job, whose lists a process reads once."""
    return SeenItemFilter(context.options)


def _store(
    context: JobContext,
    number: int,
    written: WrittenListing,
    rest: Iterator[tuple[CorpusPiece, int]],
) -> None:
    """Writes what a piece has left; then what is known of it, which marks it as listed."""
    workspace = context.workspace
    left: list[tuple[int, int]] = []
    with contextlib.ExitStack() as stack:
        for piece, weight in rest:
            if not left:  # most pieces leave nothing
                file = stack.enter_context(workspace.write(_slices(context, number)))
            left.append((file.write(frame(piece.to_bytes())), weight))
    made = {"sha256": file_sha256(workspace.listing_of(number)), "left": left}
    value = {"run": context.run_id, **written._asdict(), **made}
    write_marker(workspace, _place(context, "listed", number), value)


def _left(source: int, left: Sequence[Sequence[int]], numbers: Iterator[int]) -> list[PieceTask]:
    """Tasks for the pieces that a piece has left."""
    tasks, begin = [], 0
    for size, weight in left:
        tasks.append(PieceTask(next(numbers), weight, False, source, begin, size))
        begin += size
    return tasks


def _in_order(left: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """All pieces in the order of the listing: each before those that it has left."""
    waiting = [0]
    while waiting:
        number = waiting.pop()
        yield number
        waiting += reversed(left[number])


def _results(context: JobContext, kind: str, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What this run has found out about some pieces.

    Raises:
        InputError: A runner lost a task, or a file was damaged since.
    """
    remote = storage.local_path(context.workspace.pieces) is None
    places = [_place(context, kind, number) for number in numbers]
    results = storage.in_parallel(read_marker, places, remote=remote)
    for place, result in zip(places, results, strict=True):
        if result is None or result["run"] != context.run_id:
            raise InputError(
                f"The result {place} of listing a large corpus is missing or damaged. Run the same "
                "command again; on an engine of Beam, without the Beam options that cause this."
            )
        yield result


def _written(result: Mapping[str, Any]) -> WrittenListing:
    return WrittenListing(*(result[name] for name in WrittenListing._fields))


def _checked_units(context: JobContext, number: int, sha256: str) -> pa.Table:
    with dropping_damaged(lambda: None):  # every build writes it again
        return context.workspace.read_checked(_units(context, number), sha256)


def _place(context: JobContext, kind: str, number: int | None) -> Place:
    name = kind if number is None else f"{kind}-{number:05d}"
    return context.workspace.pieces / f"{name}.json"


def _slices(context: JobContext, number: int) -> Place:
    return context.workspace.pieces / f"left-{number:05d}.slices"


def _units(context: JobContext, number: int) -> Place:
    return context.workspace.pieces / f"units-{number:05d}.arrow"
