"""Builds that merge, though they are small."""

from __future__ import annotations

import pytest

from tests.beam_jobs.stages.merge.builds import FORCED, forced_levels


@pytest.fixture
def force(monkeypatch):
    """Has every build in this process merge on so many levels."""

    def start(levels: int) -> None:
        monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: FORCED)
        monkeypatch.setattr("beam_jobs.stages.plan.plan.choose_levels", forced_levels(levels))

    return start
