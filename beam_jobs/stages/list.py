"""Stage 1, list: the corpus as a table of records, cut into work units.

The table is a file, or one for each piece of a large corpus; a unit is a range of its rows. So a
million paths never pass through Beam.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.changes import EXCLUDED_KEY, OTHERS_KEY, note_changes, summarized_roots
from beam_jobs.corpus.discovery import expand_globs, whole_corpus
from beam_jobs.corpus.item_table import ITEM_SCHEMA, items_in
from beam_jobs.corpus.label_pattern import guess_pattern
from beam_jobs.corpus.names import Selection
from beam_jobs.corpus.record_extractor import FileExtractor, ItemExtractor
from beam_jobs.corpus.schema_inference import check_companions
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.command import command_line
from beam_jobs.options.values import splits_are_given
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.list_pieces import (
    DoTasks,
    PieceTask,
    cut_pieces,
    do_piece,
    list_rest,
)
from beam_jobs.stages.listing_file import (
    Cutting,
    WrittenListing,
    cut_listing,
    write_listing,
)
from beam_jobs.staging.other_sets import identities
from beam_jobs.staging.removed import excluded_by
from beam_jobs.staging.seen_items import SeenItemFilter
from beam_jobs.staging.units import aimed_unit_bytes, aimed_unit_items, power_of_two
from beam_jobs.workspace import read_batches, write_table
from foundation import storage
from foundation.storage import Place
from foundation.wording import parse_size, some_of
from shard_format import InputError
from shard_format.fingerprint_files import item_parts

# Raised whenever the files of a staged unit change their layout.
UNIT_VERSION = 3
# Of jobs with --labels: units of earlier versions have the bytes of files without a row.
_LABELLED = {"files_without_row": "names"}
# Of jobs with --keep-columns: sidecars of earlier versions lack these columns.
_KEPT = {"kept": "in the sidecar"}
# Units of earlier versions were staged without these options.
_YOUNGER = ("id_column", "license_column", "require_license")

_UNIT_RECORDS = 1 << 12  # aimed at for tiny files, which bounds the rows of a unit in memory
_SHOWN_REJECTED = 3
_GUESSED_ROWS = 10_000  # whose names are searched for a class


class Listing(NamedTuple):
    """The corpus as it was found.

    Attributes:
        items: Number of files, members of archives and splits, rejected ones included.
        bytes: Their bytes.
        ignored: Hidden files that were left out.
        build_id: Content address of the whole input with all options.
        inputs: What it is made of, see `beam_jobs.changes`.
        changes: What is staged anew because it changed, for the user; "" if nothing is known to.
        known: Items that earlier generations have read, and that are not read again.
        known_bytes: Their bytes.
        known_to: The last of these generations; -1 if there is none.
        unselected: Number of files that --include and --exclude left out.
        endings: See `CutListing`.
    """

    items: int
    bytes: int
    ignored: int
    build_id: str
    inputs: dict[str, Any]
    changes: str = ""
    known: int = 0
    known_bytes: int = 0
    known_to: int = -1
    unselected: int = 0
    endings: Mapping[str, int] = {}


def resolve_options(options: PreprocessOptions) -> PreprocessOptions:
    """The options with patterns expanded, and with the source and columns that "auto" means.

    Raises:
        InputError: A pattern matches nothing, SRC is ambiguous, or lacks a column.
    """
    sources = tuple(expand_globs(options.sources))
    options = dataclasses.replace(options, sources=sources)
    if storage.HUB in "".join(sources):
        read = storage.unpinned(sources)[1].items()
        notes = (f"{dataset} is read at commit {commit}." for dataset, commit in read)
        noted = tuple(dict.fromkeys((*options.notes, *notes)))
        options = dataclasses.replace(options, notes=noted)
    return RECORD_TYPES[options.record_type](options).extractor.resolved()


def list_corpus(
    context: JobContext,
    on_progress: Callable[[int], None] = lambda items: None,
    do_tasks: DoTasks | None = None,
) -> Listing:
    """Lists the sources into the workspace and cuts the listing into units.

    Args:
        context: The job.
        on_progress: Called with the number of items found so far.
        do_tasks: Has workers do all tasks of a large corpus; None to do them here.

    Raises:
        InputError: A source is missing, or there is nothing in it that could be used.
    """
    options, workspace = context.options, context.workspace
    do_tasks = do_tasks or partial(_do_here, context)
    seen = SeenItemFilter(options)
    everything = whole_corpus([storage.place_of(path) for path in options.sources])
    most = None if _lists_at_once(options) else bounds.LISTED_FILES
    first, rest = write_listing(context, 0, everything, seen, most, on_progress)
    del everything
    listed = {0: first}
    begun = next(rest, None)
    if begun is not None:
        left = itertools.chain([begun], rest)
        listed = list_rest(context, first, left, do_tasks, on_progress)
    total = _total(listed)
    _check(context, listed, total, has_known=seen.known > 0)
    cutting = _cutting(context, total)
    config = options.config()
    excluded = excluded_by(options).to_bytes()
    # What the whole build is made of: its options, and the same rows that its units are made of,
    # but not how they are cut.
    build = hashlib.blake2b(digest_size=16)
    replays = [options.replays] if options.replays else []
    build.update(json.dumps([config, options.name, cutting.stage_options, *replays]).encode())
    build.update(excluded)
    others = identities(workspace) if options.others else []
    if others:
        build.update(json.dumps([others, options.against_action]).encode())
    if len(listed) == 1:
        cut = cut_listing(context, 0, workspace.listing, first, cutting, build.update)
    else:
        cut = cut_pieces(context, listed, cutting, do_tasks)
        build.update(json.dumps([total.items, cut.sums]).encode())
    write_table(workspace, workspace.unit_table, cut.units)
    inputs: dict[str, Any] = {
        "config": config,
        "stage": cutting.stage_options,
        "sources": cut.sources,
    }
    inputs |= {EXCLUDED_KEY: hashlib.sha256(excluded).hexdigest()} if excluded else {}
    inputs |= {OTHERS_KEY: others} if others else {}
    keys = cut.units["key"].to_pylist()
    staged = (cutting.stage_options, keys, total.items)
    changes = note_changes(workspace, options.sources, *staged)
    workspace.mark("stage")
    return Listing(
        *(total.items, total.bytes, total.ignored, build.hexdigest(), inputs, changes),
        *(seen.known, seen.known_bytes, seen.known_to, total.unselected, cut.endings),
    )


def _lists_at_once(options: PreprocessOptions) -> bool:
    """Whether one worker lists a corpus of any size.

    So it is with a label table, whose rows without a file are known at the end, and where items are
    compared with those of other generations or with replaced files.
    """
    return bool(
        options.table is not None or options.base or options.without_items or options.repaired
    )


def _do_here(context: JobContext, tasks: Sequence[PieceTask]) -> None:
    for task in tasks:
        do_piece(task, context)


def _total(listed: Mapping[int, WrittenListing]) -> WrittenListing:
    """All pieces together."""
    pieces = listed.values()
    return WrittenListing(
        items=sum(one.items for one in pieces),
        usable=sum(one.usable for one in pieces),
        bytes=sum(one.bytes for one in pieces),
        ignored=sum(one.ignored for one in pieces),
        unselected=sum(one.unselected for one in pieces),
        places=(),
    )


def _check(
    context: JobContext,
    listed: Mapping[int, WrittenListing],
    total: WrittenListing,
    *,
    has_known: bool,
) -> None:
    """Checks that there is something to use in a listing.

    Raises:
        InputError: There is not.
    """
    options, extractor = context.options, context.record_type.extractor
    places = [context.workspace.listing_of(piece) for piece, one in listed.items() if one.items]
    if not has_known:
        _check_not_empty(context, total, places)
    if options.only_items or not isinstance(extractor, FileExtractor):  # a set has them otherwise
        return
    if extractor.groups_members:
        batches = itertools.chain.from_iterable(map(read_batches, places))
        items = itertools.chain.from_iterable(map(items_in, batches))
        members = (item for item in items if item.locator.container)
        check_companions(members, options, extractor, context.workspace.scratch_file())


def _cutting(context: JobContext, total: WrittenListing) -> Cutting:
    """What decides how a corpus is cut into units."""
    options, record_type = context.options, context.record_type
    stage_options = {
        "unit_version": UNIT_VERSION,
        "record_type": options.record_type,
        "version": record_type.version,
        "seed": options.seed,
        "reading": options.reading(),
        # Fractions are for planning: other ones find the staged units as they are.
        "split": options.split if splits_are_given(options.split) else "",
        **({} if options.table is None else _LABELLED),
        **(_KEPT if record_type.kept_columns else {}),
        **{name: value for name in _YOUNGER if (value := getattr(options, name)) is not None},
        **record_type.stage_options(),
    }
    weight = record_type.extractor.weight
    unit_records = max(_UNIT_RECORDS, power_of_two(total.items // bounds.UNITS))
    if isinstance(record_type.extractor, ItemExtractor):
        unit_records = aimed_unit_items(total.items)
    return Cutting(
        unit_bytes=(
            parse_size("--unit-size", options.unit_size)
            if options.unit_size is not None
            else aimed_unit_bytes(total.bytes * weight) // weight
        ),
        unit_records=unit_records,
        stage_options=stage_options,
        roots=summarized_roots(options.sources),
        item_parts=1 if options.no_fingerprints else item_parts(total.items),
    )


def _check_not_empty(context: JobContext, total: WrittenListing, places: Sequence[Place]) -> None:
    options = context.options
    where = some_of(options.sources)
    if not total.items:
        raise InputError(
            f"Found no files in {where}. Check the path"
            f"{', --include and --exclude' if Selection(options) else ''}; files whose name begins "
            "with a dot are not read."
        )
    if not total.usable:
        first, *others = items_in(_first_rows(places, _SHOWN_REJECTED))
        alike = [item.record_id for item in others if item.reason == first.reason]
        like = f", like {' and '.join(map(repr, alike))}" if alike else ""
        extractor = context.record_type.extractor
        advice = "Correct the program."
        if not isinstance(extractor, ItemExtractor):
            advice = (
                "Use one folder per class, --labels FILE, --label-pattern REGEX or --no-labels."
                f"{_guessed_command(options, places)}"
            )
        raise InputError(
            f"No usable {extractor.plural} among {total.items:,} files in {where}: "
            f"{first.record_id!r} is rejected as {first.reason} ({first.detail}){like}. {advice}"
        )


def _guessed_command(options: PreprocessOptions, places: Sequence[Place]) -> str:
    """The command for files in one folder whose names seem to begin with their class."""
    table = _first_rows(places, _GUESSED_ROWS)
    flat = pc.is_in(table["reason"], pa.array(["no-class-folder", "no-match"]))
    guess = guess_pattern(table["record_id"].filter(flat).to_pylist())
    if guess is None:
        return ""
    command = command_line(options, label_pattern=guess.pattern)
    return f" Their names have {guess}:\n  {command}"


def _first_rows(places: Sequence[Place], number: int) -> pa.Table:
    """The first items of some listings."""
    rows = ITEM_SCHEMA.empty_table()
    for batch in itertools.chain.from_iterable(map(read_batches, places)):
        if len(rows) >= number:
            break
        rows = pa.concat_tables([rows, batch])
    return rows.slice(0, number)
