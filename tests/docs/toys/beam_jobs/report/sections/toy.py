from __future__ import annotations

from beam_jobs.report.markup import Html, note
from beam_jobs.report.sampling import ReportedSet


def content(reported: ReportedSet) -> Html:
    return note(f"{reported.manifest.ledger.kept} toys")
