"""The view of a generation: manifest and index of all records up to it.

A view names files where they are, so nothing old is copied or changed but rows of the index. A
generation that is built and that no view names was killed before the last step of its append, or
the manifest is older than the set. Both are completed: a folder that has the records of an append
is never built over.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.build import has_all_files
from beam_jobs.columns import Columns
from beam_jobs.counters import summarize_column
from beam_jobs.stages.plan.balance import class_weights
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import (
    DamageError,
    Generation,
    InputError,
    Ledger,
    Manifest,
    ShardInfo,
    ShardmillError,
    SplitInfo,
    file_info,
    load_manifest,
    naming,
    parse_manifest,
)
from shard_format.generation_folders import unnamed_generations
from shard_format.index import read_schema
from shard_format.index_parts import index_tables, plan_parts, write_index
from shard_format.naming import below
from shard_format.shard_list import ShardList, shard_numbers, write_shard_list


def publish(base: Place, number: int) -> Manifest:
    """Makes a finished generation part of its set; a repetition writes the same bytes.

    Args:
        base: The set, which must be locked.
        number: Number of the generation: one more than that of the newest.

    Returns:
        The new manifest of the set.
    """
    before, own = load_manifest(base), load_manifest(base / naming.generation_folder(number))
    workspace = Workspace(base, None)
    workspace.create()
    if number == 1:
        _write(workspace, base / naming.view_file(0), before.to_text().encode())
    for name in _new_tokenizers(before, own):
        content = storage.read_bytes(base / naming.generation_folder(number) / name)
        _write(workspace, base / name, content)
    home = base / naming.view_folder(number)
    scratch = workspace.scratch_of(home / naming.MANIFEST)
    manifest = make_view(base, number, before, own, home, scratch)
    content = manifest.to_text().encode()
    _write(workspace, base / naming.view_file(number), content)
    _write(workspace, base / naming.MANIFEST, content)  # last of all
    return manifest


def make_view(
    base: Place,
    number: int,
    before: Manifest,
    own: Manifest,
    home: Place,
    scratch: Path | None = None,
) -> Manifest:
    """Returns the manifest of all generations up to one; writes their index.

    Args:
        base: The set.
        number: Number of the generation.
        before: The view of the generation before it.
        own: Manifest of the generation alone.
        home: The folder to write the index to.
        scratch: See `storage.create`.
    """
    folder, final = naming.generation_folder(number), naming.view_folder(number)
    files: dict[str, Mapping[str, Any]] = dict(before.files)
    files |= {below(folder, name): info for name, info in own.files.items()}
    splits: dict[str, SplitInfo] = {}
    indexes: dict[str, Mapping[str, Any]] = {}
    storage.make_folder(home / naming.INDEX_DIR)
    for name in dict.fromkeys([*before.splits, *own.splits]):
        splits[name], written = _split(base, name, before, (own, number), home, scratch)
        indexes |= {below(final, file): file_info(home / file) for file in written}
    files[below(folder, naming.MANIFEST)] = _text_info(own)
    files[naming.view_file(number - 1)] = _text_info(before)
    config = dict(before.config)
    for name in _new_tokenizers(before, own):
        files[name] = own.files[name]
        config |= {key: own.config[key] for key in ("tokenizer", "vocabulary")}
    known = before.generations or (Generation("", before.root_hash, ""),)
    known = (*known[:-1], dataclasses.replace(known[-1], view=before.root_hash))
    return dataclasses.replace(
        before,
        schema=own.schema,
        splits=splits,
        ledger=added(before.ledger, own.ledger),
        config=config,
        files=files | indexes,
        generations=(*known, Generation(folder, own.root_hash, "")),
        home=final,
    )


def _new_tokenizers(before: Manifest, own: Manifest) -> set[str]:
    """Names of tokenizers that the set gets with a generation: the first one with a record."""
    return own.files.keys() & set(naming.TOKENIZERS.values()) - before.files.keys()


def _text_info(manifest: Manifest) -> dict[str, Any]:
    text = manifest.to_text().encode()
    return {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def known_builds(build: Mapping[str, Any]) -> list[str]:
    """The ids of all builds whose sources a set, or a generation, has: from its build.json."""
    own = build.get("build_id")
    return [*([own] if own else []), *build.get("compacted", ())]


def added(*ledgers: Ledger) -> Ledger:
    """Returns the sum of some ledgers."""
    by_name: dict[str, Counter[str]] = {name: Counter() for name in ("reasons", "dropped_objects")}
    sums: Counter[str] = Counter()
    values: dict[str, Any]
    for ledger in ledgers:
        values = dataclasses.asdict(ledger)
        for name, counts in by_name.items():
            counts.update(values.pop(name))
        sums.update(values)
    names = [field.name for field in dataclasses.fields(Ledger) if field.name not in by_name]
    values = {name: sums[name] for name in names}
    values |= {name: dict(sorted(counts.items())) for name, counts in by_name.items()}
    return Ledger(**values)


def _write(workspace: Workspace, place: Place, content: bytes) -> None:
    storage.make_folder(place.parent)
    with workspace.write(place, durable=True) as file:
        file.write(content)


def _split(
    base: Place,
    name: str,
    before: Manifest,
    appended: tuple[Manifest, int],
    home: Place,
    scratch: Path | None,
) -> tuple[SplitInfo, list[str]]:
    """Writes the rows of all shards of a split: those of the new ones behind all others.

    Of an index in parts those that are there stay, and get others behind them.

    Returns:
        The split, and the files that were written, relative to the home of the view.
    """
    own, number = appended
    folder = naming.generation_folder(number)
    sets = [(base, before)] * (name in before.splits) + [(base / folder, own)] * (
        name in own.splits
    )
    schema = read_schema(sets[0][0] / sets[0][1].index_file(name))

    def columns(names: Sequence[str]) -> Iterator[pa.Table]:
        return itertools.chain.from_iterable(
            index_tables(root, manifest, name, names) for root, manifest in sets
        )

    known = [manifest.splits[name] for _, manifest in sets]
    statistics = merged_statistics([dict(one.statistics) for one in known], columns, schema.names)
    old, new = before.splits.get(name), own.splits.get(name)
    old_records, new_records = (
        shard_numbers(one.shards, "records").tolist() if one is not None else []
        for one in (old, new)
    )
    old_shards = old.shards if old is not None else ()
    shards = itertools.chain(old_shards, _below(folder, new.shards if new is not None else ()))
    new_rows = _by_shard(base / folder, own, name, len(old_records)) if new is not None else ()
    records = [*old_records, *new_records]
    in_parts = any(one.index for one in known)
    if not in_parts and len(plan_parts(records)) == 1:
        rows = itertools.chain(
            _by_shard(base, before, name, 0) if old is not None else (), new_rows
        )
        (part,) = write_index(home, name, records, rows, schema, scratch=scratch)
        return SplitInfo(tuple(shards), statistics), [part.file]
    parts = list(before.index_parts(name)) if old is not None else []
    files = [naming.shards_file(name)]
    place = home / files[0]
    write_shard_list(place, shards, scratch=scratch)
    if new_records:
        for part in write_index(
            home, name, new_records, new_rows, schema, before=len(parts), scratch=scratch
        ):
            files.append(part.file)
            final = below(naming.view_folder(number), part.file)
            parts.append(dataclasses.replace(part, file=final))
    numbers = (len(records), sum(records), sum(one.bytes for one in known))
    listed = ShardList(place, *numbers, file_info(place)["sha256"])
    return SplitInfo(listed, statistics, tuple(parts)), files


def _below(folder: str, shards: Iterable[ShardInfo]) -> Iterator[ShardInfo]:
    """The shards of a generation, with names relative to the set."""
    return (dataclasses.replace(one, file=below(folder, one.file)) for one in shards)


def _by_shard(root: Place, manifest: Manifest, split: str, before: int) -> Iterator[pa.Table]:
    """Yields the rows of each shard of a split, numbered behind so many other shards.

    Raises:
        DamageError: A part of the index has another number of rows than its shards have records.
    """
    records = shard_numbers(manifest.splits[split].shards, "records").tolist()
    parts = zip(manifest.shards_by_part(split), index_tables(root, manifest, split), strict=True)
    for (part, shards), table in parts:
        if len(table) != sum(records[shards.start : shards.stop]):
            raise DamageError(
                f"The index {root / part.file} has not the rows of its shards. Run 'shardmill "
                "verify'."
            )
        begin = 0
        for shard in shards:
            own = table.slice(begin, records[shard])
            begin += records[shard]
            number = pa.array(np.full(len(own), shard + before), pa.int32())
            yield own.set_column(0, own.schema.field(0), number)


def merged_statistics(
    parts: list[dict[str, Any]], columns: Columns, present: Collection[str]
) -> dict[str, Any]:
    """Statistics of a split in several parts.

    Counts, weights and integer columns are those of all records. What a model is normalized with,
    pixels and vocabulary, stays that of the first part.

    Args:
        parts: Statistics of the first build, then of the next one.
        columns: Columns of the index of both.
        present: Names of these columns.
    """
    merged = {**_class_statistics(parts)}
    labels = [part["labels"] for part in parts if "labels" in part]
    if labels:
        names = dict.fromkeys(name for part in labels for name in part)
        merged["labels"] = {
            name: _class_statistics([part.get(name, {}) for part in labels]) for name in names
        }
    for part in parts:
        for name, value in part.items():
            if name in merged:
                continue
            counted = isinstance(value, dict) and "histogram" in value
            if counted and name in present:
                value = summarize_column(columns, name)
            merged[name] = value
    return merged


def _class_statistics(parts: list[dict[str, Any]]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for part in parts:
        for name, number in part.get("class_counts", {}).items():
            counts[name] = counts.get(name, 0) + number
    if not counts:
        return {}
    # The part that has all classes, in the order of their numbers, is the last one.
    if not any("class_weights" in part for part in parts):
        return {"class_counts": counts}
    weights = class_weights(np.array(list(counts.values()), np.int64))
    return {"class_counts": counts, "class_weights": dict(zip(counts, weights, strict=True))}


def publish_finished(base: Place, on_note: Callable[[str], None]) -> Manifest:
    """Publishes every finished generation; of a set that must be locked.

    Returns:
        The manifest of the set.

    Raises:
        InputError: There is another folder in the place of a generation.
    """
    manifest = load_manifest(base)
    for number in unnamed_generations(base, manifest):
        folder = base / naming.generation_folder(number)
        problem = _problem(base, number, manifest)
        if problem:
            raise InputError(
                f"{folder} is there, and {base / naming.MANIFEST} does not name it: {problem}. "
                f"Restore {naming.MANIFEST}, or the files of this folder, from a copy; or move the "
                "folder out of the set."
            )
        on_note(f"publishing generation {number}, which was finished before")
        Workspace(folder, None).remove()
        manifest = publish(base, number)
    return manifest


def _problem(base: Place, number: int, manifest: Manifest) -> str:
    """Returns why the folder of a generation cannot be published; "" if it can."""
    folder = base / naming.generation_folder(number)
    try:
        own = load_manifest(folder)
    except ShardmillError as error:
        return str(error).rstrip(".")
    if number != manifest.newest + 1:
        return f"generation {manifest.newest + 1} is missing"
    if not has_all_files(folder, own):
        return "files of it are missing, or have other sizes"
    place = base / naming.view_file(number)
    if storage.stat(place) is not None:
        try:
            view = parse_manifest(storage.read_bytes(place), str(place), base)
        except ShardmillError:
            return ""  # it is written again
        if len(view.generations) != number + 1 or view.generations[-2].view != manifest.root_hash:
            return "it was appended to another set"
    return ""
