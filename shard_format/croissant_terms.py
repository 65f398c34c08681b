"""What croissant.json says of a set as a whole: name, papers, Responsible AI, provenance.

The rest, files and records, is in `croissant`. Provenance is in the terms of W3C PROV, as
Croissant 1.1 recommends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shard_format.manifest import Manifest
from shard_format.papers import AGENTS, CARD_FIELDS, facts_copy, papers_of
from shard_format.set_facts import (
    command_of,
    generated_by,
    masked_data,
    options_text,
    processing_counts,
    processing_steps,
    source_names,
    version_of,
)

# The terms of Croissant in the context of version 1.0, as mlcroissant writes it, and of 1.1.
_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex "
    "repeated replace samplingRate separator source subField transform"
)
_TERMS_1_1 = (
    "annotation arrayShape containedIn excludes isArray readLines sdVersion unArchive value"
)
_CONTEXT: dict[str, Any] = {
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
_CONTEXT_1_1: dict[str, Any] = {
    **_CONTEXT,
    **{term: f"cr:{term}" for term in _TERMS_1_1.split()},
    # Both may be in several languages.
    "description": {"@container": "@language"},
    "name": {"@container": "@language"},
    "prov": "http://www.w3.org/ns/prov#",
}
_VERSION = "1.0.0"  # of a set whose card says none


def described_in_1_0(manifest: Manifest) -> dict[str, Any]:
    """The properties of a set in version 1.0 of Croissant, as earlier versions wrote them."""
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": manifest.name,
        "description": _summary(manifest),
        "version": _VERSION,
    }


def _summary(manifest: Manifest) -> str:
    filled = {name: split for name, split in manifest.splits.items() if split.records}
    records = ", ".join(f"{split.records:,} of {name}" for name, split in filled.items())
    return (
        f"A shard set of shardmill with {manifest.schema.record_type} records: {records}. The "
        "records are in TFRecord files; a record set has a row for each of them, with file, "
        f"byte offset and length. Root hash {manifest.root_hash}."
    )


def described_set(manifest: Manifest, build: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a set in version 1.1.

    Args:
        manifest: Manifest of the set.
        build: The content of its build.json; empty if there is none.
    """
    papers = papers_of(build)
    card = papers.get("card", {})
    given: dict[str, Any] = {
        field.term: [_agent(one) for one in card[name]] if field.kind == AGENTS else card[name]
        for name, field in CARD_FIELDS.items()
        if name in card and field.term
    }
    if "license" in papers:
        given["license"] = papers["license"]
    if "citation" in papers:
        given["citeAs"] = papers["citation"]
    if papers or version_of(build):
        given["subjectOf"] = facts_copy(papers, version_of(build))
    processed, masked = "rai:dataPreprocessingProtocol", "rai:personalSensitiveInformation"
    own: dict[str, Any] = {
        "@context": _CONTEXT_1_1,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.name,
        "description": _summary(manifest),
        "version": _VERSION,
    }
    told = {
        processed: [
            *given.get(processed, ()),
            *processing_steps(manifest),
            *processing_counts(manifest),
        ],
        masked: [*given.get(masked, ()), *masked_data(manifest)],
    }
    return (
        own
        | given
        | {name: value for name, value in told.items() if value}
        | _prov(manifest, build, given.get("creator"))
    )


def _agent(agent: Mapping[str, str]) -> dict[str, str]:
    """A person or an organization in the terms of schema.org."""
    others = {name: value for name, value in agent.items() if name != "type"}
    return {"@type": "sc:Organization" if agent.get("type") == "organization" else "sc:Person"} | (
        others
    )


def _prov(manifest: Manifest, build: Mapping[str, Any], creators: Any) -> dict[str, Any]:
    """Sources, the job, and who answers for the set: its creators, else the program."""
    program = {"@type": "prov:SoftwareAgent", "prov:label": generated_by(build)}
    sources = [{"@type": "prov:Entity", "prov:label": name} for name in source_names(build)]
    return {
        **({"prov:wasDerivedFrom": sources} if sources else {}),
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": command_of(manifest),
            "description": f"Options: {options_text(manifest)}",
            "prov:wasAssociatedWith": program,
        },
        "prov:wasAttributedTo": [
            {"@type": "prov:Agent", "prov:label": one["name"]} for one in creators
        ]
        if creators
        else program,
    }
