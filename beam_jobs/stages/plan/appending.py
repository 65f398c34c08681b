"""What a plan takes from earlier generations of the set: duplicates, splits and classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import BoolArray, IntArray, int64, slices, uint64
from beam_jobs.dedup.clusters import NO_NEAR_PAIRS, Clusters
from beam_jobs.dedup.earlier import ConfirmOld, Related, exact_links, match_existing
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.splits import Identity
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from foundation import storage
from foundation.storage import Place
from foundation.wording import counted
from shard_format import InputError, Manifest, decode_example, unframe
from shard_format.index_parts import index_tables
from shard_format.keys import UInt64Array


def needs_stored(options: PreprocessOptions, record_type: RecordType) -> list[str] | None:
    """The further columns that appending to a set needs; None if its index is enough."""
    names = [field.name for field in record_type.stored_features] if options.dedup == "near" else []
    names += ["group"] * options.has_groups
    # The index has neither records that were dropped, nor documents that were packed.
    complete = options.conflicts == "drop" or getattr(options, "pack", None) is not None
    return names if names or complete else None


class Earlier(NamedTuple):
    """What earlier generations decide for new records.

    Attributes:
        stored: Their records.
        related: New records that are duplicates of theirs.
        options: The job.
    """

    stored: StoredRecords
    related: Related
    options: PreprocessOptions

    def class_names(self, found: dict[str, list[str]]) -> tuple[dict[str, list[str]], list[str]]:
        """The classes of the set, then the new ones, and a note on these.

        Args:
            found: Classes of the new records that are kept, by label.

        Raises:
            InputError: There are new ones, and --new-classes is refuse.
        """
        names: dict[str, list[str]] = {}
        notes = []
        known = {one.name: one.class_names for one in self.stored.manifest.schema.labels}
        for label, own in found.items():
            before = list(known.get(label, ()))
            new = [name for name in own if name not in set(before)]
            names[label] = [*before, *new]
            if not new:
                continue
            shown = ", ".join(map(repr, new[:5])) + (", ..." if len(new) > 5 else "")
            classes = counted(len(new), "class", "classes")
            if self.options.new_classes == "refuse":
                raise InputError(
                    f"SRC has {classes} that {self.stored.base} does not have: {shown}. "
                    "Correct the labels, or use --new-classes add."
                )
            notes.append(f"{classes} more than in the set before: {shown}")
        return names, notes

    def assign(self, assignment: Assignment, sidecars: Sidecars) -> int:
        """Moves new records to the splits of the old ones that they must stay with.

        Returns:
            How many were left out since old records of different splits would claim them.
        """
        claimed = np.full(sidecars.records, _FREE, np.int64)
        names = assignment.names
        codes = [_FREE if one is None else _number(names, one) for one in self.related.splits]
        claimed[self.related.records] = codes
        split_conflicts = self._claim_groups(claimed, names, sidecars)
        keep_all = self.options.duplicates == "keep"
        identity = Identity(sidecars, self.related.clusters if keep_all else None)
        same = np.concatenate(
            [np.zeros(0, np.uint64), *(identity(table) for _, table in sidecars.without_progress())]
        )
        inside = np.asarray(assignment.split_of != LEFT_OUT)
        _, component = np.unique(same, return_inverse=True)
        claims = np.flatnonzero((claimed != _FREE) & inside)
        low = np.full(len(same), len(names), np.int64)
        high = np.full(len(same), _FREE, np.int64)
        np.minimum.at(low, component[claims], claimed[claims])
        np.maximum.at(high, component[claims], claimed[claims])
        bound = inside & (high[component] != _FREE)
        split_conflicts |= bound & (low != high)[component]
        assignment.split_of[bound] = low[component][bound]
        split_conflicts &= inside
        assignment.split_of[split_conflicts] = LEFT_OUT
        return int(split_conflicts.sum())

    def _claim_groups(
        self, claimed: IntArray, names: list[str], sidecars: Sidecars
    ) -> npt.NDArray[np.bool_]:
        """Fills in the splits of groups; records whose group and cluster are in different ones."""
        split_conflicts = np.zeros(sidecars.records, bool)
        if not self.options.has_groups:
            return split_conflicts
        groups, code_of = self._group_codes(names, sidecars)
        if not len(groups):
            return split_conflicts
        for begin, own in sidecars.without_progress():
            valid = np.flatnonzero(pc.is_valid(own["group"]).to_numpy())
            wanted = uint64(own["group"].drop_null())
            at = np.minimum(np.searchsorted(groups, wanted), len(groups) - 1)
            known = groups[at] == wanted
            records = valid[known] + begin
            before = claimed[records]
            split_conflicts[records] = (before != _FREE) & (before != code_of[at[known]])
            claimed[records] = code_of[at[known]]
        return split_conflicts

    def _group_codes(self, names: list[str], sidecars: Sidecars) -> tuple[UInt64Array, IntArray]:
        """([n] uint64 groups of new records that old ones have, [n] the number of their split)."""
        new = (uint64(table["group"].drop_null()) for _, table in sidecars.without_progress())
        wanted = np.unique(np.concatenate([np.zeros(0, np.uint64), *map(np.unique, new)]))
        groups, codes = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        for table in self.stored.group_splits():
            splits = table["split"].combine_chunks().dictionary_encode()
            numbers = [_number(names, one) for one in splits.dictionary.to_pylist()]
            old = uint64(table["group"])
            own = np.isin(old, wanted)
            code_of = np.array(numbers, np.int64)[splits.indices.to_numpy()[own]]
            groups, first = np.unique(np.concatenate([groups, old[own]]), return_index=True)
            codes = np.concatenate([codes, code_of])[first]
        return groups, codes


_FREE = -2


def _number(names: list[str], split: str) -> int:
    """The number of a split, which may have no new record otherwise."""
    if split not in names:
        names.append(split)
    return names.index(split)


def find_earlier(sidecars: Sidecars, clusters: Clusters, context: JobContext) -> Earlier:
    """Compares new records with those of earlier generations.

    Args:
        sidecars: All staged units.
        clusters: Duplicates among the new records.
        context: The job; its record type finds near duplicates.

    Raises:
        InputError: An id is taken, or the set has not stored what is needed.
    """
    options, record_type = context.options, context.record_type
    needed = needs_stored(options, record_type)
    base = storage.place_of(options.base)
    stored = StoredRecords(
        base, needed or (), complete=needed is not None, generation=options.base_generation
    )
    confirm = confirm_stored(sidecars, stored, record_type)
    exact = exact_links(sidecars, stored, confirm, by_content=options.dedup != "off")
    near = NO_NEAR_PAIRS
    if options.dedup == "near" and sidecars.records and len(stored):
        # One record of each set of exact duplicates, as among the new ones.
        left = np.ones(sidecars.records, bool)
        if sidecars.excluded is not None:
            left &= ~sidecars.excluded
        members = clusters.members
        repeats = members.filter(pc.and_(pc.equal(members["kind"], "exact"), members["dropped"]))
        left[int64(repeats["record"])] = False
        left[exact[:, 0]] = False
        near = record_type.near_earlier_ones(sidecars, np.flatnonzero(left), stored)
    keep_all = options.duplicates == "keep"
    related = match_existing(sidecars, stored, clusters, exact, near, keep_all=keep_all)
    return Earlier(stored, related, options)


def confirm_stored(
    sidecars: Sidecars, stored: StoredRecords, record_type: RecordType
) -> ConfirmOld | None:
    """Confirms that new records are equal to stored ones; None if equal fingerprints suffice."""
    digest = record_type.confirm
    if digest is None:
        return None

    def confirm(records: IntArray, keys: UInt64Array) -> BoolArray:
        old = StoredExamples(stored.base, stored.manifest, keys)
        own_keys = uint64(sidecars.take(records, ["key"])["key"])
        equal = np.zeros(len(records), bool)
        new = zip(sidecars.examples(records), own_keys.tolist(), keys.tolist(), strict=True)
        for at, (example, own_key, key) in enumerate(new):
            try:
                equal[at] = digest(example) == digest(old(key))
            except LookupError:  # a dropped one: what it equals is stored, but for itself
                equal[at] = own_key == key
        return equal

    return confirm


class StoredExamples:
    """Stored examples by key, for the few whose equal fingerprints do not suffice.

    Args:
        base: The set.
        manifest: Manifest of the set.
        keys: [n] uint64, keys of the records, whose places are in memory.
    """

    def __init__(self, base: Place, manifest: Manifest, keys: UInt64Array) -> None:
        self._base, self._manifest = base, manifest
        self._places: dict[int, tuple[str, int, int, int]] = {}
        names = ["key", "shard", "offset", "length"]
        for split in manifest.splits if len(keys) else ():
            for table in index_tables(base, manifest, split, names):
                for rows in slices(table, bounds.PLANNED_ROWS):
                    own = rows.filter(pa.array(np.isin(uint64(rows["key"]), keys)))
                    for key, *place in zip(*(own[one].to_pylist() for one in names), strict=True):
                        self._places.setdefault(key, (split, *place))

    def __call__(self, key: int) -> dict[str, object]:
        """The example.

        Raises:
            LookupError: The record was dropped.
        """
        split, shard, offset, length = self._places[key]
        path = self._base / self._manifest.splits[split].shards[shard].file
        framed = storage.read_range(path, offset, length)
        return dict(decode_example(unframe(framed, str(path))))
