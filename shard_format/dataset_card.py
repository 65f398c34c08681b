"""README.md: the card of a data set, in the form of the Hugging Face Hub.

It is written from manifest and build.json, and its last line has a checksum. A card that was edited
by hand no longer matches it, and is never replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from foundation import storage
from foundation.storage import Place
from foundation.wording import format_bytes, visible
from shard_format import naming
from shard_format.checksums import card_text, has_own_card, whole_build
from shard_format.manifest import Manifest
from shard_format.papers import BODY, CARD_FIELDS, SPDX, Papers, papers_of
from shard_format.schema import Schema
from shard_format.set_facts import (
    command_of,
    generated_by,
    masked_data,
    processing_steps,
    source_names,
)

# Licenses of the Hub whose name is that of SPDX in lower case; it shows others by name and URL.
_HUB_LICENSES = set(
    "apache-2.0 mit afl-3.0 artistic-2.0 bsl-1.0 bsd-2-clause bsd-3-clause bsd-3-clause-clear "
    "cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 "
    "cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 "
    "cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 "
    "wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 isc lppl-1.3c ms-pl mpl-2.0 "
    "osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib agpl-3.0 gpl-2.0 gpl-3.0 lgpl-2.1 "
    "lgpl-3.0".split()
)
_HUB_NAMES = {"odbl-1.0": "odbl", "odc-by-1.0": "odc-by", "pddl-1.0": "pddl"}
_HUB_LICENSES |= {*_HUB_NAMES.values()}
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
# Neither YAML has these as they are, nor do all editors keep them.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# An underscore within a word is none.
_MARKUP = re.compile(r"[\\`*\[|~]|^[#+-]|(?<![^\W_])_|_(?![^\W_])")
_HEADED = {"title", "description", "creators", "publisher", "url", "date_published", "version"}
_HEADED |= {"keywords", "languages", "task_categories"}


class CardSplit(NamedTuple):
    """A split in the table of a card: its records, files, and the bytes of these."""

    name: str
    records: int
    files: int
    bytes: int


def write_card(directory: Place, manifest: Manifest, scratch: Path | None = None) -> bool:
    """Writes README.md of a set, unless somebody has edited it.

    Args:
        directory: The set.
        manifest: Its manifest.
        scratch: See `storage.create`.

    Returns:
        Whether it was written.
    """
    place = directory / naming.CARD
    if storage.stat(place) is not None and not has_own_card(directory):
        return False
    splits = [
        CardSplit(name, split.records, len(split.shards), split.bytes)
        for name, split in manifest.splits.items()
    ]
    first = next((split.name for split in splits if split.records), "train")
    reading = f'import reader\n\nrecords = reader.random_access(".", "{first}")\nprint(records[0])'
    page = card_page(manifest, whole_build(directory), splits, reading)
    storage.write_bytes(place, card_text(page, manifest.root_hash), scratch=scratch)
    return True


def card_page(
    manifest: Manifest,
    build: Mapping[str, Any],
    splits: Sequence[CardSplit],
    reading: str,
    *,
    of_files: str = "TFRecord shards",
    data_files: Mapping[str, str] | None = None,
    selected: str | None = None,
) -> str:
    """The text of a card.

    Args:
        manifest: Manifest of the set.
        build: The content of its build.json; empty if there is none.
        splits: What there is of each split.
        reading: A program that reads it.
        of_files: What the files are.
        data_files: Pattern of the files of each split, from which the Hub loads them.
        selected: The condition by which records were selected; None for all.
    """
    papers = papers_of(build)
    card = papers.get("card", {})
    title = card.get("title") or manifest.name
    records = sum(split.records for split in splits)
    lines = ["---", *_front_matter(manifest, papers, title, records, data_files), "---", ""]
    lines += [f"# {_plain(title)}", ""]
    kind = manifest.schema.record_type
    about = f"{records:,} {kind} records in {of_files}, made by {generated_by(build)}."
    lines += [card.get("description") or about, ""]
    known = {"Version": "version", "Published": "date_published", "Page": "url"}
    facts = [f"- {what}: {_plain(card[name])}" for what, name in known.items() if name in card]
    lines += [*facts, ""] if facts else []
    lines += _table(
        ("split", "records", "files", "size"),
        (
            # Of a format with a file for each record, nobody has counted them.
            (
                one.name,
                f"{one.records:,}",
                *((one.files, format_bytes(one.bytes)) if one.files else ("", "")),
            )
            for one in splits
        ),
    )
    if selected is not None:
        lines += [f"Of the set, records were selected by the condition {_code(selected)}.", ""]
    lines += ["## Features", "", *_features(manifest.schema)]
    lines += ["## How it was made", "", *_making(manifest, build)]
    lines += ["## How to read it", "", "```python", reading, "```", ""]
    lines += _rights(papers)
    for name, field in CARD_FIELDS.items():
        if name in card and name not in _HEADED:
            heading = name.replace("_", " ").capitalize()
            values = card[name] if field.is_list else [card[name]]
            lines += [f"## {heading}", "", *_paragraphs(values)]
    return "\n".join([*lines, *([card[BODY], ""] if BODY in card else []), ""])


def _front_matter(
    manifest: Manifest,
    papers: Papers,
    title: str,
    records: int,
    data_files: Mapping[str, str] | None,
) -> Iterator[str]:
    card = papers.get("card", {})
    yield from _license(papers.get("license", ""))
    lists = {
        "language": card.get("languages", []),
        "size_categories": [_size_category(records)],
        "task_categories": card.get("task_categories") or _tasks(manifest.schema),
        "tags": list(dict.fromkeys([*card.get("keywords", []), "shardmill"])),
    }
    yield f"pretty_name: {_yaml(title)}"
    for name, values in lists.items():
        if values:
            yield f"{name}:"
            yield from (f"- {_yaml(value)}" for value in values)
    if data_files:
        yield from ("configs:", "- config_name: default", "  data_files:")
        for split, pattern in data_files.items():
            yield from (f"  - split: {split}", f"    path: {_yaml(pattern)}")


def _size_category(records: int) -> str:
    power = len(str(records)) - 4  # of ten, above a thousand
    if power < 0:
        return f"n<{_SIZES[0]}"
    if power >= len(_SIZES) - 1:
        return f"n>{_SIZES[-1]}"
    return f"{_SIZES[power]}<n<{_SIZES[power + 1]}"


def _license(url: str) -> Iterator[str]:
    """The license as the Hub has it: a name of its list, or any other with its URL."""
    if not url:
        return
    spdx = url.removeprefix(SPDX) if url.startswith(SPDX) else ""
    name = re.sub("-(only|or-later)$", "", spdx.lower())
    name = _HUB_NAMES.get(name, name)
    if name in _HUB_LICENSES:
        yield f"license: {name}"
        return
    yield "license: other"
    yield f"license_name: {_yaml(spdx or 'other')}"
    yield f"license_link: {_yaml(url)}"


def _tasks(schema: Schema) -> list[str]:
    """The tasks that the features are for, where that is clear."""
    names = {feature.name for feature in schema.features}
    kinds = {feature.kind for feature in schema.features}
    if schema.record_type == "image":
        tasks = {
            "image-classification": bool(schema.labels) and "bbox" not in kinds,
            "object-detection": "bbox" in kinds,
            "image-to-text": "caption" in names,
        }
        return [task for task, applies in tasks.items() if applies]
    if schema.record_type == "text":
        return ["text-classification" if schema.labels else "text-generation"]
    return []


def _features(schema: Schema) -> Iterator[str]:
    rows = []
    for feature in schema.features:
        shape = ", ".join("any" if side < 0 else str(side) for side in feature.shape)
        classes = f"{len(feature.class_names):,} classes" if feature.class_names else ""
        rows.append((feature.name, feature.kind, f"[{shape}]" if shape else "", classes))
    return _table(("feature", "kind", "shape", ""), rows)


def _making(manifest: Manifest, build: Mapping[str, Any]) -> Iterator[str]:
    named = ", ".join(map(_code, source_names(build)))
    sources = f" from {named}" if named else ""
    yield f"By `{command_of(manifest)}` of {generated_by(build)}{sources}."
    yield ""
    yield from (f"- {_plain(one)}" for one in (*processing_steps(manifest), *masked_data(manifest)))
    yield from ("", "The records of each split are in a global random order. Where all went:", "")
    ledger = manifest.ledger
    counts = {
        "read": ledger.read,
        "kept": ledger.kept,
        "repeated": ledger.repeated,
        "left out as duplicates": ledger.duplicates,
        "filtered out": ledger.filtered,
        "rejected": ledger.quarantined,
        "kept out by id": ledger.excluded,
    }
    shown = [(name, f"{count:,}") for name, count in counts.items() if count or name == "kept"]
    yield from _table(("records", "number"), shown)
    if ledger.reasons:
        reasons = ((reason, f"{count:,}") for reason, count in ledger.reasons.items())
        yield from _table(("reason", "records"), reasons)
    yield f"The root hash of the set is `{manifest.root_hash}`."
    yield ""


def _rights(papers: Papers) -> Iterator[str]:
    card = papers.get("card", {})
    license_url = papers.get("license", "")
    yield from ("## License", "")
    yield f"<{license_url}>" if license_url else "None was given: ask before you use or share it."
    yield ""
    for heading, name in (("Creators", "creators"), ("Publisher", "publisher")):
        if name in card:
            yield from (f"## {heading}", "", *_paragraphs(map(_agent, card[name])))
    if citation := papers.get("citation"):
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", citation)), 0)
        yield from ("## Citation", "", f"{fence}bibtex", citation, fence, "")


def _agent(agent: Mapping[str, str]) -> str:
    """A person or an organization with what is known of it."""
    contacts = [agent[name] for name in ("email", "url") if name in agent]
    return _plain(f"{agent['name']} ({', '.join(contacts)})" if contacts else agent["name"])


def _paragraphs(values: Iterable[str]) -> Iterator[str]:
    """Texts of the user, which are Markdown."""
    values = list(values)
    for value in values:
        # The further lines of an item belong to it.
        yield "- " + value.replace("\n", "\n  ") if len(values) > 1 else value
    yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"
    yield ""


def _plain(text: object) -> str:
    """Text from a corpus or an option, in which no character is markup."""
    shown = visible(str(text)).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKUP.sub(r"\\\g<0>", shown)


def _code(text: str) -> str:
    """The same as code, in which only a backtick is markup."""
    return f"`{visible(text).replace('`', chr(39))}`"


def _yaml(text: str) -> str:
    """Text in YAML: quoted as in JSON, which YAML reads, but for characters that only JSON has."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
