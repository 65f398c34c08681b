"""The set in a few numbers: how much there is, under which hash, built with which options."""

from __future__ import annotations

import json

from beam_jobs.report.markup import Html, element, escape, folded, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.set_warnings import set_warnings
from foundation.wording import counted, format_bytes
from shard_format import SplitInfo
from shard_format.manifest import cleaning_steps

_WARNING_WIDTH = 1000  # characters


def content(reported: ReportedSet) -> Html:
    """Numbers, splits, root hash, options."""
    manifest = reported.manifest
    splits = manifest.splits.values()
    numbers = [
        (reported.records, "record", "records"),
        (len(manifest.splits), "split", "splits"),
        (len(reported.class_names), "class", "classes"),
        (sum(len(split.shards) for split in splits), "shard", "shards"),
        (manifest.ledger.duplicates, "duplicate", "duplicates"),
        (manifest.ledger.quarantined, "quarantined", "quarantined"),
    ]
    if reported.holds_text:  # rules on documents leave out far more than those on images
        numbers.insert(-1, (manifest.ledger.filtered, "filtered", "filtered"))
    shown = [_number(f"{count:,}", one if count == 1 else many) for count, one, many in numbers]
    warnings = set_warnings(manifest, reported.build)
    shown.append(_number(format_bytes(sum(split.bytes for split in splits)), "in shards"))
    return escape(
        (
            element("ul", shown, class_="numbers"),
            [note(("Warning: ", foreign(one, _WARNING_WIDTH))) for one in warnings],
            _splits(reported),
            element("p", "Root hash ", element("code", manifest.root_hash, class_="hash")),
            _cleaning(reported),
            _options(reported),
        )
    )


def _number(number: str, noun: str) -> Html:
    return element("li", element("strong", number), element("small", noun))


def _splits(reported: ReportedSet) -> Html:
    splits = reported.manifest.splits
    rows = [
        (
            name,
            f"{split.records:,}",
            f"{len(split.shards):,}",
            format_bytes(split.bytes),
            _per_shard(split),
        )
        for name, split in splits.items()
    ]
    return table(("split", "records", "shards", "size", "per shard"), rows)


def _per_shard(split: SplitInfo) -> str:
    counts = [shard.records for shard in split.shards] or [0]
    if min(counts) == max(counts):
        return f"{counts[0]:,}"
    return f"{min(counts):,} to {max(counts):,}"


def _cleaning(reported: ReportedSet) -> Html | None:
    steps = cleaning_steps(reported.manifest.config)
    if not steps:
        return None
    rows = [
        ((f"{number}. ", foreign(name)), foreign(parameters))
        for number, (name, parameters) in enumerate(steps, 1)
    ]
    return folded(counted(len(steps), "cleaning step"), ("step", "parameters"), rows)


def _options(reported: ReportedSet) -> Html:
    rows = [
        (foreign(option), foreign(json.dumps(value, ensure_ascii=False)))
        for option, value in reported.manifest.config.items()
        if option != "clean" or not cleaning_steps(reported.manifest.config)
    ]
    return folded("Options that this set was built with", ("option", "value"), rows)
