"""The papers of a set: its license, its citation and its card.

They change no record, so no root hash covers them. build.json has them among the options of the
build, as JSON in one text; croissant.json and README.md are written from there. croissant.json has
a copy with a checksum, for the repair of a build.json that is lost.

    {"license": "https://spdx.org/licenses/CC-BY-4.0", "citation": "@misc{...}",
     "card": {"description": "...", "data_biases": ["..."], "body": "Markdown"}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

Papers = Mapping[str, Any]

SPDX = "https://spdx.org/licenses/"
PAPERS_KEY = "papers"  # among the options of a build
BODY = "body"  # of a card: the Markdown behind its front matter
_COPY_NAME = "shardmill-facts"

AGENT_FIELDS = ("name", "type", "url", "email")  # of a person or an organization
TEXT, TEXTS, URL, DATE, DATES, AGENTS = "a text", "texts", "a URL", "a date", "dates", "agents"


class CardField(NamedTuple):
    """A field that a card may have.

    Attributes:
        kind: What its value is: TEXT, TEXTS, URL, DATE, DATES or AGENTS.
        term: Its property in croissant.json; "" for a field of README.md alone.
    """

    kind: str
    term: str

    @property
    def is_list(self) -> bool:
        """Whether there may be several values."""
        return self.kind in (TEXTS, DATES, AGENTS)


def _rai(name: str, kind: str) -> tuple[str, CardField]:
    """A field of Croissant RAI: its name is that of the property, with underscores."""
    first, *others = name.split("_")
    return name, CardField(kind, f"rai:{first}{''.join(map(str.capitalize, others))}")


CARD_FIELDS: dict[str, CardField] = {
    "title": CardField(TEXT, "alternateName"),
    "description": CardField(TEXT, "description"),
    "creators": CardField(AGENTS, "creator"),
    "publisher": CardField(AGENTS, "publisher"),
    "url": CardField(URL, "url"),
    "date_published": CardField(DATE, "datePublished"),
    "version": CardField(TEXT, "version"),
    "keywords": CardField(TEXTS, "keywords"),
    "languages": CardField(TEXTS, "inLanguage"),
    "task_categories": CardField(TEXTS, ""),
    **dict(
        _rai(name, kind)
        for kind, names in (
            (TEXT, "data_collection data_collection_missing_data data_collection_raw_data"),
            (TEXTS, "data_collection_type"),
            (DATES, "data_collection_time_frame"),
            (TEXT, "data_imputation_protocol data_manipulation_protocol annotations_per_item"),
            (TEXTS, "data_preprocessing_protocol data_annotation_protocol"),
            (TEXTS, "data_annotation_platform data_annotation_analysis annotator_demographics"),
            (TEXTS, "machine_annotation_tools data_biases data_limitations data_use_cases"),
            (TEXTS, "personal_sensitive_information"),
            (TEXT, "data_social_impact data_release_maintenance_plan"),
        )
        for name in names.split()
    ),
}
"""The fields of a card besides its body, in the order of README.md."""


def papers_text(papers: Papers) -> str:
    """Papers as build.json has them; "" if there are none."""
    return json.dumps(papers, sort_keys=True) if papers else ""


def parse_papers(text: Any) -> dict[str, Any]:
    """Papers from `papers_text`; empty for anything else."""
    try:
        papers = json.loads(text) if text else {}
    except (TypeError, ValueError, RecursionError):
        return {}
    return papers if _are_papers(papers) else {}


def _are_papers(papers: Any) -> bool:
    """Whether a value has the form of papers: a set may come from anyone."""
    if not isinstance(papers, dict) or papers.keys() - {"license", "citation", "card"}:
        return False
    card = papers.get("card", {})
    texts = [papers[name] for name in ("license", "citation") if name in papers]
    if not isinstance(card, dict) or not all(map(_is_text, texts)):
        return False
    return all(
        _is_text(value) if name == BODY else _fits(CARD_FIELDS[name], value)
        for name, value in card.items()
        if name in CARD_FIELDS or name == BODY  # others are of a later version
    )


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be stored: half of a surrogate pair cannot."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fits(field: CardField, value: Any) -> bool:
    if not field.is_list:
        return _is_text(value)
    if not isinstance(value, list):
        return False
    if field.kind != AGENTS:
        return all(map(_is_text, value))
    return all(
        isinstance(one, dict)
        and {"name"} <= one.keys() <= {*AGENT_FIELDS}
        and all(map(_is_text, one.values()))
        for one in value
    )


def papers_of(build: Mapping[str, Any]) -> dict[str, Any]:
    """The papers in the content of a build.json."""
    return parse_papers((build.get("options") or {}).get(PAPERS_KEY))


def joined_papers(before: Papers, given: Papers) -> dict[str, Any]:
    """Papers of which license, citation or card are replaced by those that are given."""
    return {**before, **given}


class CopiedFacts(NamedTuple):
    """What croissant.json has a copy of, for the repair of a build.json that is lost.

    Attributes:
        papers: The papers.
        version: Version of shardmill that built the set; "" if it is not known.
    """

    papers: Papers
    version: str


def facts_copy(papers: Papers, version: str) -> dict[str, Any]:
    """The copy of papers and version in croissant.json, with its checksum."""
    text = json.dumps({"papers": papers, "version": version}, sort_keys=True)
    return {
        "@type": "sc:MediaObject",
        "name": _COPY_NAME,
        "encodingFormat": "application/json",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "text": text,
    }


def copied_facts(croissant: bytes) -> CopiedFacts | None:
    """What a croissant.json has a whole copy of; None if it is damaged.

    Those of earlier versions have none, for there were no papers.
    """
    try:
        content = json.loads(croissant)
        copy = content.get("subjectOf")
        if copy is None:
            return CopiedFacts({}, "")
        text, sha256 = copy["text"], copy["sha256"]
        if hashlib.sha256(text.encode()).hexdigest() != sha256:
            return None
        facts = json.loads(text)
        papers, version = facts["papers"], facts["version"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    is_whole = _are_papers(papers) and isinstance(version, str)
    return CopiedFacts(papers, version) if is_whole else None
