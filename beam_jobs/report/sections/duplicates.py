"""Clusters of duplicates as people see them: was the right one kept, and do their labels agree?"""

from __future__ import annotations

from collections.abc import Iterable

from beam_jobs.report.clusters import MOST_CLUSTERS, Cluster, Member, read_clusters
from beam_jobs.report.markup import (
    Html,
    element,
    escape,
    figure,
    foreign,
    foreign_words,
    note,
)
from beam_jobs.report.sections.base import Facts, tile, tiles
from beam_jobs.report.sections.texts import sight
from shard_format.dropped import DuplicateCounts, count_duplicates
from shard_format.wording import counted

_SHOWN_CHARACTERS, _SHOWN_LINES = 200, 4  # of each of some documents that are alike


def content(facts: Facts) -> Html:
    """Numbers, then the clusters, those with contradictory labels first."""
    counts = count_duplicates(facts.directory, facts.manifest)
    if counts is None:
        left_out = facts.manifest.ledger.duplicates
        if not left_out:
            return note("No duplicates were found.")
        return note(f"{left_out:,} duplicates were left out; this set does not keep which ones.")
    if not counts.clusters:
        return note("No duplicates were found.")
    clusters = read_clusters(facts)
    kind = "clusters texts" if facts.holds_text else "clusters"
    shown = element("div", [_cluster(facts, cluster) for cluster in clusters], class_=kind)
    return escape((note(_summary(counts)), shown))


def _summary(counts: DuplicateCounts) -> str:
    text = (
        f"{counted(counts.clusters, 'cluster')}: {counted(counts.exact, 'exact duplicate')}, "
        f"{counted(counts.near, 'near duplicate')}, {counts.dropped:,} of them left out; "
        f"{counted(counts.conflicts, 'cluster')} with contradictory labels."
    )
    if counts.clusters > MOST_CLUSTERS:
        text += f" {MOST_CLUSTERS} clusters are shown, contradictory labels first."
    return text


def _cluster(facts: Facts, cluster: Cluster) -> Html:
    contradictory = cluster.left_out or any(member.conflict for member in cluster.members)
    split = f"kept in {cluster.kept_split}" if cluster.kept_split else "kept, but in no split"
    if cluster.left_out:
        split = "left out, for the labels differ"
    label = None
    if cluster.kept_label is not None:
        label = element("small", foreign(cluster.kept_label, 40))
    words = (foreign(cluster.kept_id, 40), label, element("small", foreign(split, 80)))
    kept = _tile(facts, cluster, cluster.kept_id, words, "" if cluster.left_out else "kept")
    rest = cluster.size - len(cluster.members)
    return element(
        "div",
        tiles([kept, *(_member(facts, member) for member in cluster.members)]),
        note(f"and {rest:,} more") if rest else None,
        class_="cluster contradictory" if contradictory else "cluster",
    )


def _member(facts: Facts, member: Member) -> Html:
    kind = "exact" if member.kind == "exact" else f"{member.kind} {member.similarity:.3f}"
    if not member.dropped:
        kind += f", stays in {member.split}" if member.split else ", stays"
    label: Html | None = None
    if member.conflict:
        label = element("small", "other label: ", foreign(member.label or "none", 40))
        label = element("strong", label, class_="warning")
    elif member.label is not None:
        label = element("small", foreign(member.label, 40))
    words = (foreign(member.record_id, 40), label, element("small", foreign(kind, 80)))
    return _tile(facts, member, member.record_id, words)


def _tile(
    facts: Facts, shown: Cluster | Member, record_id: str, words: Iterable[object], kind: str = ""
) -> Html:
    """A picture with words below it, or a document with words above it."""
    if facts.holds_text:
        document = sight(shown.excerpt, _SHOWN_CHARACTERS, _SHOWN_LINES)
        return figure(document, words, class_=f"document {kind}".strip())
    if shown.picture is None:
        return tile(element("span", "no preview", class_="none"), words, kind=kind)
    return tile(element("img", src=shown.picture, alt=foreign_words(record_id)), words, kind=kind)
