"""`shardmill compact`: all generations of a set become one, and records can be taken out.

Shards are sorted runs, so this is a merge: rows of the index are sorted, frames are copied, and
nothing is decoded. The result is written as a set of its own, and `publish_set` puts it in the
place of the old one. Memory is that of the index of a split.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds, publishing
from beam_jobs.columns import IntArray, int64, uint64
from beam_jobs.counters import summarize
from beam_jobs.generations import leftovers
from beam_jobs.generations.append import lock_of
from beam_jobs.generations.packed import packing_statistics, without_documents
from beam_jobs.generations.removal import (
    RECEIPTS_KEY,
    receipt,
    receipts_in,
    removed_records,
)
from beam_jobs.generations.views import known_builds, publish_finished
from beam_jobs.images.statistics import merge_pixels
from beam_jobs.moved_sources import MERGED_KEY, merged_options
from beam_jobs.publishing import publish_set, target_of, write_state
from beam_jobs.record_ids import missing_error
from beam_jobs.stages.commit.statistics import class_statistics
from beam_jobs.stages.labels import label_features
from beam_jobs.staging.reader import Source, read_frames
from beam_jobs.staging.seen_items import merge_seen_items
from beam_jobs.workspace import Workspace, read_json, write_json
from foundation import storage
from foundation.machine import usable_cores
from foundation.storage import Place
from shard_format import (
    FRAME_BYTES,
    LABELS_FIELD,
    DamageError,
    Feature,
    InputError,
    Manifest,
    ShardInfo,
    SplitInfo,
    encode_features,
    file_info,
    label_column,
    load_build,
    naming,
    open_index,
    open_split_index,
)
from shard_format.checksums import build_text
from shard_format.compaction import State, digest_of, read_state
from shard_format.croissant import write_croissant
from shard_format.expected_files import FINGERPRINTS_KEY
from shard_format.index_parts import write_index
from shard_format.manifest_file import RECORDS_OF_KEY
from shard_format.removed_records import RemovedRecords, read_removed
from shard_format.tfds_metadata import tfds_files

_VARINT_BYTES = 5  # of the length of an example, at most


class Compacted(NamedTuple):
    """The result of `compact`.

    Attributes:
        manifest: Manifest of the set.
        merged: Number of generations that were merged; 1 where there was nothing to merge.
        removed: Records taken out: kept ones, duplicates and rejected ones.
        not_found: Ids that no record of the set has, sorted.
        changed: Whether anything was written.
        receipt: Receipt of the removal, see `removal.receipt`; None if nothing was to be removed.
    """

    manifest: Manifest
    merged: int
    removed: int
    not_found: list[str]
    changed: bool
    receipt: dict[str, Any] | None


class _ShardSource(Source):
    """A shard of the set to read frames from."""

    @contextlib.contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Damage is for the user: nothing can make a shard again here."""
        yield


def compact(
    directory: Place | str,
    remove: Collection[str] = (),
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    on_note: Callable[[str], None] = lambda note: None,
    *,
    missing_ok: bool = False,
) -> Compacted:
    """Merges all generations of a set into balanced, globally shuffled shards.

    Whatever moment it is killed at, there is a whole set, and the same command completes the work.

    Args:
        directory: The set.
        remove: Ids of records to take out of every file of the set.
        on_progress: Called with ("compact", bytes done, bytes in all), from one thread at a time.
        on_note: See `run.preprocess`.
        missing_ok: Whether ids that no record has are left out.

    Raises:
        InputError: No record has one of the ids, or the set does not say how it was built; nothing
            was changed.
        DamageError: A shard is damaged.
    """
    base = storage.place_of(storage.absolute(str(directory)))
    ids = frozenset(remove)
    digest = digest_of(ids)
    with lock_of(base, on_note):
        state = read_state(base)
        if state is not None and state.root_hash:
            manifest = publish_set(base, state)  # another process has written everything
            if state.digest == digest:
                counts = (state.merged, state.removed, state.not_found, True)
                return Compacted(manifest, *counts, _last_receipt(base, digest))
            state = None
        before = publish_finished(base, on_note)
        config = before.config
        vocabulary = config.get("vocabulary") or {}
        packed = config.get("pack") and before.ledger.kept
        has_end = not packed or vocabulary.get("end") is not None
        if not {"seed", "shard_size"} <= config.keys() or not has_end:
            raise InputError(f"{base} does not say how it was built. Build the set again.")
        records = leftovers.find(base, before, ids)
        not_found = sorted(ids - records.ids)
        removed, done = read_removed(base, before), _last_receipt(base, digest)
        # Those that were removed before are no mistake: the same command may have been killed.
        unknown = [name for name in not_found if not (done or removed.has_id(name))]
        if unknown and not missing_ok:
            stripped = frozenset(name.strip() for name in unknown)
            near = leftovers.find(base, before, stripped).ids
            raise missing_error(base, unknown, len(ids), near)
        merged = before.newest + 1
        receipt_of = partial(receipt, digest, len(ids), records, before)
        if merged == 1 and not records.ids:
            publishing.abandon(base)
            nothing = receipt_of(before.root_hash) if ids else None
            return Compacted(before, 1, 0, not_found, False, done or nothing)
        if state is None or state.digest != digest:
            publishing.abandon(base)
        state = State(digest, merged, records.removed, not_found, had_report(base), "")
        write_state(base, state)
        if ids:
            removed = removed.joined(removed_records(base, before, records))
        built = _write_set(base, before, ids, removed, records, receipt_of, on_progress)
        state = state._replace(root_hash=built.root_hash)
        write_state(base, state)
        manifest = publish_set(base, state)
        done = _last_receipt(base, digest)
        return Compacted(manifest, merged, records.removed, not_found, True, done)


def _last_receipt(base: Place, digest: str) -> dict[str, Any] | None:
    """Returns the receipt of the removal of some ids."""
    known = [one for one in receipts_in([load_build(base)]) if one.get("ids_sha256") == digest]
    return known[-1] if known else None


def had_report(base: Place) -> bool:
    """Returns whether the set has a report, which is then written again."""
    return storage.stat(base / naming.REPORT) is not None


def _write_set(
    base: Place,
    before: Manifest,
    ids: frozenset[str],
    removed: RemovedRecords,
    found: leftovers.Found,
    receipt_of: Callable[[str], dict[str, Any]],
    on_progress: Callable[[str, int, int], None],
) -> Manifest:
    """Writes the set that is to be, with its manifest last."""
    out = target_of(base)
    workspace = Workspace(out, None)
    workspace.create()
    storage.make_folder(out / naming.INDEX_DIR)
    total = sum(split.bytes for split in before.splits.values())
    done, lock = 0, threading.Lock()

    def count(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            on_progress("compact", done, total)

    splits = {
        name: _write_split(base, before, name, ids, workspace, count) for name in before.splits
    }
    on_progress("compact", done, done)  # removed records were part of the total
    contents = tfds_files(before.name, before.schema, splits)
    for name in naming.TOKENIZERS.values():
        if storage.stat(base / name) is not None:
            contents[name] = storage.read_bytes(base / name)
    if any(removed):
        contents |= dict.fromkeys((naming.REMOVED, naming.REMOVED_COPY), removed.to_bytes())
    for name, content in contents.items():
        with workspace.write(out / name, durable=True) as file:
            file.write(content)
    files = [*contents]
    files += leftovers.write(base, before, ids, workspace)
    manifest = dataclasses.replace(
        before,
        splits=splits,
        ledger=found.ledger(before.ledger),
        files={},
        generations=(),
        home="",
    )
    files += [file for name in splits for file in manifest.index_files(name)]
    manifest = dataclasses.replace(manifest, files={name: file_info(out / name) for name in files})
    write_croissant(out, manifest, workspace.scratch_of)
    fingerprints = leftovers.write_stored(base, before, ids, workspace)
    fingerprints |= merge_seen_items(base, before, workspace)
    own = [receipt_of(manifest.root_hash)] if ids else []
    _write_build(base, before, manifest, fingerprints, own, workspace)
    with workspace.write(out / naming.MANIFEST, durable=True) as file:
        file.write(manifest.to_text().encode())
    workspace.remove()
    return manifest


def _write_build(
    base: Place,
    before: Manifest,
    manifest: Manifest,
    fingerprints: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
    workspace: Workspace,
) -> None:
    """build.json: the options of the first build, which sources the set has, and all receipts.

    Notes of the builds are left out: they may name records that are removed.
    """
    folders = [one.folder for one in before.generations] or [""]
    builds = [load_build(base / folder if folder else base) for folder in folders]
    known = [one for build in builds for one in known_builds(build)]
    kept = {name: builds[0][name] for name in ("options", "packages") if name in builds[0]}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    value: dict[str, Any] = {"build_id": "", "started": now, "compacted": known, "notes": []}
    if manifest.ledger.kept == before.ledger.kept:
        value[RECORDS_OF_KEY] = before.root_hash
    value[MERGED_KEY] = [own for build in builds for own in merged_options(build)]
    if done := [*receipts_in(builds), *receipts]:
        value[RECEIPTS_KEY] = done
    value[FINGERPRINTS_KEY] = fingerprints
    with workspace.write(workspace.out / naming.BUILD, durable=True) as file:
        file.write(build_text(value | kept, manifest))


def _write_split(
    base: Place,
    before: Manifest,
    name: str,
    ids: frozenset[str],
    workspace: Workspace,
    on_bytes: Callable[[int], None],
) -> SplitInfo:
    """Writes the shards and the index of a split."""
    info = before.splits[name]
    rows = open_split_index(base, before, name)
    sources = [_ShardSource(base / shard.file, 0, lambda: None, None) for shard in info.shards]
    is_packed = "documents" in rows.column_names
    sort_keys = [("key", "ascending")]
    if not is_packed:
        sort_keys.append(("record_id", "ascending"))  # those of sequences are no order
    if ids and is_packed:
        changed = workspace.scratch_file()
        rows = without_documents(rows, sources, ids, before, changed)
        sources.append(_ShardSource(changed, 0, lambda: None, None))
    elif ids:
        unwanted = pc.is_in(rows["record_id"], value_set=pa.array(sorted(ids), pa.string()))
        rows = rows.filter(pc.invert(unwanted))
    order = pc.sort_indices(rows, sort_keys=sort_keys)
    rows = rows.take(order).combine_chunks()
    edges = _edges(uint64(rows["key"]), _num_shards(before, rows))
    count = len(edges) - 1

    def write(number: int) -> ShardInfo:
        file = naming.shard_file(before.name, name, number, count)
        own = rows.slice(edges[number], edges[number + 1] - edges[number])
        return _write_shard(own, file, sources, workspace, on_bytes)

    with ThreadPoolExecutor(max(1, math.ceil(usable_cores()))) as pool:
        shards = tuple(pool.map(write, range(count)))
    tables = (
        _placed(rows.slice(begin, end - begin), number)
        for number, (begin, end) in enumerate(itertools.pairwise(edges))
    )
    scratch = workspace.scratch_of(workspace.out / naming.MANIFEST)
    parts = write_index(workspace.out, name, shards, tables, rows.schema, scratch=scratch)
    index = pa.concat_tables([open_index(workspace.out / part.file) for part in parts])
    return SplitInfo(shards, _statistics(info, index, before), parts if len(parts) > 1 else ())


def _num_shards(manifest: Manifest, rows: pa.Table) -> int:
    """As many as a build of these records has."""
    config = manifest.config
    if not len(rows):
        return 0
    if config.get("num_shards") is not None:
        return min(len(rows), int(config["num_shards"]))
    staged = int(_staged_lengths(manifest, rows).sum())
    return min(len(rows), max(1, round(staged / int(config["shard_size"]))))


def _staged_lengths(manifest: Manifest, rows: pa.Table) -> IntArray:
    """[n] int64: bytes of the frames of records without their labels.

    Labels are the last features of an example, and are not staged. Token ids are of other lengths
    than the texts that were staged; for those these are the lengths of the examples.
    """
    example = int64(rows["length"]) - FRAME_BYTES
    entries = example - 2
    for size in range(1, _VARINT_BYTES + 1):
        entries = np.where(entries >= 1 << (7 * size), example - 2 - size, entries)
    for feature in label_features(manifest.schema):
        entries = entries - _label_bytes(feature, rows)
    return entries + FRAME_BYTES


def _label_bytes(feature: Feature, rows: pa.Table) -> npt.NDArray[np.int64]:
    """[n] int64: bytes of a label in the example of each row."""
    several = bool(feature.shape)
    column = rows[LABELS_FIELD.name if several else label_column(feature.name)]
    values = [tuple(one) for one in column.to_pylist()] if several else column.to_pylist()
    sizes: dict[Any, int] = {None: 0}
    for value in set(values) - {None}:
        sizes[value] = len(encode_features([feature], {feature.name: value}))
    return np.array([sizes[value] for value in values], np.int64)


def _edges(keys: npt.NDArray[np.uint64], shards: int) -> list[int]:
    """[shards + 1] where each shard begins; equal keys are in one shard, as in a build."""
    if not shards:
        return [0]
    ranks = np.arange(1, shards, dtype=np.int64) * len(keys) // shards
    return [0, *np.searchsorted(keys, keys[ranks], side="left").tolist(), len(keys)]


def _write_shard(
    rows: pa.Table,
    file: str,
    sources: Sequence[Source],
    workspace: Workspace,
    on_bytes: Callable[[int], None],
) -> ShardInfo:
    """Copies the frames of a shard, unless a killed run has."""
    plan = hashlib.blake2b(digest_size=16)
    for name in ("shard", "offset", "length"):
        plan.update(int64(rows[name]).tobytes())
    plan.update(json.dumps([str(source.place) for source in sources]).encode())
    marker = workspace.work / f"{file}.json"
    size = int(int64(rows["length"]).sum())
    done = read_json(marker)
    if done is not None and done["plan"] == plan.hexdigest():
        written = storage.stat(workspace.out / file)
        if written is not None and written.size == size:
            on_bytes(size)
            return ShardInfo(**done["info"])
    storage.delete(marker)
    table = pa.table({"unit": rows["shard"], "offset": rows["offset"], "length": rows["length"]})
    digest = hashlib.sha256()
    with workspace.write(workspace.out / file, durable=True) as sink:
        for _, frames in read_frames(table, sources, bounds.COPIED_FRAME_BYTES):
            block = b"".join(frames)
            digest.update(block)
            sink.write(block)
            on_bytes(len(block))
    info = ShardInfo(file, len(rows), size, digest.hexdigest())
    write_json(workspace, marker, {"plan": plan.hexdigest(), "info": dataclasses.asdict(info)})
    return info


def _placed(rows: pa.Table, shard: int) -> pa.Table:
    """Returns rows of the index with their places in a new shard."""
    lengths = int64(rows["length"])
    columns = {
        "shard": pa.array(np.full(len(rows), shard), pa.int32()),
        "offset": pa.array(np.cumsum(lengths) - lengths),
    }
    for name, values in columns.items():
        at = rows.column_names.index(name)
        rows = rows.set_column(at, rows.schema.field(name), values)
    return rows


def _statistics(before: SplitInfo, index: pa.Table, manifest: Manifest) -> dict[str, Any]:
    """Of all records of a split; what only their content shows, as it was."""
    known = before.statistics
    training = bool(known.keys() - {"class_counts", "labels"})

    def columns(names: Sequence[str]) -> list[pa.Table]:
        if missing := set(names) - set(index.column_names):
            raise DamageError(
                f"The index has no column {min(missing)!r}, which the schema of the set asks for. "
                "Build the set again."
            )
        return [index.select(names)]

    several = LABELS_FIELD.name in index.column_names
    labels = {
        feature.name: class_statistics(
            columns,
            feature.name,
            feature.class_names,
            several=several and feature.name == "label",
            training=training,
        )
        for feature in label_features(manifest.schema)
    }
    statistics: dict[str, Any] = dict(labels.pop("label", {}))
    if labels:
        statistics["labels"] = labels
    for name, value in known.items():
        if name in statistics or name in ("class_counts", "class_weights", "labels"):
            continue
        if name == "pixels":
            value = merge_pixels(columns)
        elif name == "packing" and "documents" in index.column_names:
            value = packing_statistics(index, int(manifest.config.get("pack") or 0))
        elif isinstance(value, dict) and "histogram" in value and name in index.column_names:
            value = summarize(int64(index[name].drop_null()))
        if value:
            statistics[name] = value
    return statistics
