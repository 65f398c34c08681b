"""The papers of a set that is complete: they are replaced without a look at any record."""

from __future__ import annotations

from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import Generation, load_manifest, naming
from shard_format.checksums import build_text, has_own_card, whole_build
from shard_format.croissant import renew_description
from shard_format.dataset_card import write_card
from shard_format.papers import (
    PAPERS_KEY,
    joined_papers,
    papers_of,
    papers_text,
    parse_papers,
)


def renew_papers(base: Place, given: str, *, wants_card: bool) -> None:
    """Replaces papers of a set, which must be locked: in build.json, croissant.json and README.md.

    Killed in between, the same command completes it; so does `repair`.

    Args:
        base: The set.
        given: The papers, see `papers_text`; what they leave out stays. "" changes nothing.
        wants_card: Whether a set without README.md gets one.
    """
    if not given:
        return
    workspace = Workspace(base, None)
    workspace.create()
    for one in load_manifest(base).generations or (Generation("", "", ""),):
        place = base / one.folder if one.folder else base
        build = whole_build(place)
        if "options" not in build:
            continue  # damaged, or of the first version: `repair` writes one
        manifest = load_manifest(place) if one.folder else load_manifest(base, 0)
        papers = papers_text(joined_papers(papers_of(build), parse_papers(given)))
        if papers != build["options"].get(PAPERS_KEY, ""):
            build["options"][PAPERS_KEY] = papers
            storage.write_bytes(
                place / naming.BUILD,
                build_text(build, manifest),
                durable=True,
                scratch=workspace.scratch_of(place / naming.BUILD),
            )
        renew_description(place, manifest, workspace.scratch_of)
    if wants_card or has_own_card(base):
        write_card(base, load_manifest(base), workspace.scratch_of(base / naming.CARD))
