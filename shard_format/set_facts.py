"""What manifest and build.json say about how a set was made, in words, for papers and people.

Nothing here depends on times or on the machine of the build: sources have their own names, without
the folders that they are in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from foundation.wording import counted, visible
from shard_format.manifest import Manifest, cleaning_steps

_OFF: tuple[object, ...] = (None, False, "none", "off", "", [], 0)
_SHOWN_APART = {"record_type", "clean", "split"}
_MASKED = {
    "mask-emails": "email addresses",
    "mask-phones": "telephone numbers",
    "mask-cards": "numbers of payment cards",
    "mask-ips": "IP addresses",
}
_MOST_SOURCES = 100  # named one by one
_COMMANDS = {"image": "images", "text": "text"}


def source_names(build: Mapping[str, Any]) -> list[str]:
    """The sources of all builds of a set, by their own names; URLs without user and query."""
    builds = build.get("merged_options") or [build.get("options", {})]
    names = list(
        dict.fromkeys(visible(_name(one)) for own in builds for one in own.get("sources", ()))
    )
    more = len(names) - _MOST_SOURCES
    return names if more <= 0 else [*names[:_MOST_SOURCES], f"{more} more"]


def _name(source: str) -> str:
    scheme, is_url, rest = source.partition("://")
    if is_url:
        host, slash, path = rest.partition("?")[0].partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    return PurePath(source.replace("\\", "/")).name or source


def version_of(build: Mapping[str, Any]) -> str:
    """The version of shardmill that built a set; "" if it is not known."""
    packages = build.get("packages")
    version = packages.get("shardmill") if isinstance(packages, dict) else None
    return version if isinstance(version, str) and version[:1].isdigit() else ""


def generated_by(build: Mapping[str, Any]) -> str:
    """Name and version of the program."""
    return f"shardmill {version_of(build)}".rstrip()


def command_of(manifest: Manifest) -> str:
    """The command that makes such sets."""
    return f"shardmill preprocess {_COMMANDS.get(manifest.schema.record_type, 'records')}"


def options_text(manifest: Manifest) -> str:
    """The options that change records, and have an effect: "resize=shorter:256, ..."."""
    apart = _SHOWN_APART | ({"near_threshold"} if manifest.config.get("dedup") != "near" else set())
    values = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in manifest.config.items()
        if name not in apart and (value not in _OFF or name == "seed")
    }
    return ", ".join(f"{name}={visible(value)}" for name, value in values.items())


def processing_steps(manifest: Manifest) -> Iterator[str]:
    """Yields a sentence for each step that made the records."""
    config = manifest.config
    yield f"Options: {options_text(manifest)}."
    steps = [f"{name} ({values})" if values else name for name, values in cleaning_steps(config)]
    if steps:
        yield f"Cleaning steps, in their order: {'; '.join(steps)}."
    yield _duplicates(manifest)


def processing_counts(manifest: Manifest) -> Iterator[str]:
    """Yields a sentence on where records went, and one on the splits."""
    ledger = manifest.ledger
    lost = {
        "left out as duplicates": ledger.duplicates,
        "filtered out": ledger.filtered,
        "rejected": ledger.quarantined,
    }
    ways = ", ".join(f"{count:,} {way}" for way, count in lost.items() if count)
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in ledger.reasons.items())
    kept = f"{counted(ledger.read, 'record')} read: {ledger.kept:,} kept"
    yield f"{', '.join(filter(None, (kept, ways)))}.{f' Reasons: {reasons}.' if reasons else ''}"
    records = (f"{split.records:,} {name}" for name, split in manifest.splits.items())
    yield f"Splits: {', '.join(records)}. The records of each are in a global random order."


def _duplicates(manifest: Manifest) -> str:
    config = manifest.config
    search = config.get("dedup", "off")
    if search == "off":
        return "Duplicates were not searched for."
    near = f" and near ones, from a similarity of {config.get('near_threshold')} on,"
    searched = f"Exact duplicates{near if search == 'near' else ''} were searched for"
    if config.get("duplicates") == "keep":
        return f"{searched}, and kept together in one split."
    return f"{searched}, and {counted(manifest.ledger.duplicates, 'record')} left out as such."


def masked_data(manifest: Manifest) -> list[str]:
    """What personal data was replaced by tokens; empty if none was looked for."""
    steps = [name for name, _ in cleaning_steps(manifest.config)]
    kinds = [f"{what} ({name})" for name, what in _MASKED.items() if name in steps]
    if not kinds:
        return []
    return [f"Replaced by tokens wherever a pattern matched: {', '.join(kinds)}."]
