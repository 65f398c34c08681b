"""The set in a few numbers: how much there is, under which hash, built with which options."""

from __future__ import annotations

import json

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from beam_jobs.set_warnings import set_warnings
from foundation.wording import format_bytes
from shard_format.manifest import cleaning_steps


def content(reported: ReportedSet) -> Content:
    """Numbers, warnings, splits, root hash, cleaning steps and options."""
    manifest = reported.manifest
    ledger, splits = manifest.ledger, manifest.splits.values()
    counts = [
        (reported.records, "record", "records"),
        (len(splits), "split", "splits"),
        (len(reported.class_names), "class", "classes"),
        (sum(len(split.shards) for split in splits), "shard", "shards"),
        (ledger.duplicates, "duplicate", "duplicates"),
        (ledger.quarantined, "quarantined", "quarantined"),
    ]
    if reported.holds_text:  # rules on documents leave out far more than those on images
        counts.insert(-1, (ledger.filtered, "filtered", "filtered"))
    numbers = [(f"{count:,}", one if count == 1 else many) for count, one, many in counts]
    steps = cleaning_steps(manifest.config)
    return {
        "numbers": [*numbers, (format_bytes(sum(split.bytes for split in splits)), "in shards")],
        "warnings": set_warnings(manifest, reported.build),
        "steps": steps,
        "options": {
            option: json.dumps(value, ensure_ascii=False)
            for option, value in manifest.config.items()
            if option != "clean" or not steps
        },
    }
