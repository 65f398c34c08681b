"""Builds that merge, though they are small."""

from __future__ import annotations

import pytest

from tests.beam_jobs.stages.merge.builds import merging


@pytest.fixture
def force(monkeypatch):
    """Has every build in this process merge."""

    def start(levels: int, units: int) -> None:
        forced = merging(levels, units)
        monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: forced)

    return start
