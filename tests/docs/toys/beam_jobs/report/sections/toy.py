from __future__ import annotations

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content


def content(reported: ReportedSet) -> Content:
    return {"toys": reported.manifest.ledger.kept}
