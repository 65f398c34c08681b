"""What the user should be told of a plan."""

from __future__ import annotations

from beam_jobs.dedup.clusters import Clusters
from beam_jobs.options import PreprocessOptions
from beam_jobs.stages.plan.balance import Repeats


def balance_notes(repeats: Repeats, undersampled: int) -> list[str]:
    """What was repeated or left out to make classes equal."""
    if undersampled:
        return [f"--balance undersample left {undersampled:,} training records out"]
    if repeats.total:
        most = int(repeats.extra.max()) + 1
        return [
            f"--balance oversample added {repeats.total:,} copies; a record occurs up to {most:,} "
            "times"
        ]
    return []


def cluster_notes(clusters: Clusters, options: PreprocessOptions) -> list[str]:
    """Clusters whose records contradict each other."""
    if not clusters.conflicts:
        return []
    what = {
        ("drop", "keep"): "one record of each is kept; --conflicts drop leaves them out",
        ("drop", "drop"): "they are left out",
    }.get((options.duplicates, options.conflicts), "all their records are kept")
    return [
        f"{clusters.conflicts} of {clusters.number} duplicate clusters have contradictory labels: "
        f"{what} (duplicates.parquet lists them)"
    ]


def parts_notes(kind: str, parts: int, emptied: int) -> list[str]:
    """Parts that stand elsewhere.

    Args:
        kind: "lines" or "paragraphs".
        parts: How many go.
        emptied: Records out of which nothing is left.
    """
    if not parts:
        return []
    return [
        f"{parts:,} {kind} that stand elsewhere were taken out; {emptied:,} records of which "
        "nothing is left count as duplicates"
    ]
