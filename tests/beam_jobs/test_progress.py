"""Reports of workers: tasks that say nothing else are still heard, and silence is noticed."""

from __future__ import annotations

import time
import types

import pytest

from beam_jobs import progress
from beam_jobs.engine import beam_job
from beam_jobs.engine.beam_job import WorkerWatchdog
from beam_jobs.progress import Follower, at_work, report
from foundation import storage


@pytest.fixture
def short_beats(monkeypatch):
    monkeypatch.setattr(progress, "_BEAT_SECONDS", 0.05)
    monkeypatch.setattr(progress, "_OBJECT_SECONDS", 0.05)
    monkeypatch.setattr(progress._Objects, "seconds", 0.05)


@pytest.fixture(params=["file", "objects"])
def place(request, tmp_path):
    if request.param == "file":
        return storage.place_of(str(tmp_path / "progress"))
    request.getfixturevalue("memory")
    return storage.place_of("memory://bucket/set/progress")


def test_a_task_without_records_is_heard_and_not_shown(place, short_beats):
    shown = []
    follower = Follower(place, lambda *sums: shown.append(sums))
    assert not follower.has_heard
    follower.start()
    with at_work(place):
        _wait_for(lambda: follower.has_heard)
        time.sleep(1)
        _wait_for(lambda: follower.seconds_silent < 0.5)
        report(place, "plan", 3, 7)
    _wait_for(lambda: follower.seconds_silent > 1)
    follower.stop()
    assert shown[-1] == ("plan", 3, 7) and {stage for stage, *_ in shown} == {"plan"}


def test_a_stage_is_shown_when_it_begins_and_when_it_changes(place, short_beats):
    """A stage that is over, shown again and again, would hide the one that runs."""
    shown = []
    follower = Follower(place, lambda *sums: shown.append(sums))
    follower.start()
    report(place, "stage", 5, 5)
    _wait_for(lambda: shown)
    report(place, "plan")
    _wait_for(lambda: shown[-1][0] == "plan")
    report(place, "plan", 1)
    follower.stop()
    assert shown == [("stage", 5, 5), ("plan", 0, 0), ("plan", 1, 0)]


def test_reports_of_an_earlier_job_are_not_heard(tmp_path, short_beats):
    place = storage.place_of(str(tmp_path / "progress"))
    report(place, "stage", 5)
    follower = Follower(place, lambda *sums: None)
    follower.start()
    time.sleep(0.5)
    follower.stop()
    assert not follower.has_heard


def _wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("job_server", [True, False])
def test_silence_is_noted_once_and_ends_a_job_of_a_job_server(job_server):
    follower, notes = types.SimpleNamespace(seconds_silent=0.0, has_heard=False), []
    watch = WorkerWatchdog(follower, waits_without_limit=job_server, on_note=notes.append)

    def at(seconds):
        follower.seconds_silent = seconds
        return watch.must_end()

    assert not at(beam_job._NOTE_SECONDS - 1) and not notes
    assert not at(beam_job._NOTE_SECONDS) and not at(beam_job._END_SECONDS)  # waits in a queue
    (note,) = notes
    assert note.startswith("No worker has started for 2 minutes. ")
    follower.has_heard = True
    assert not at(1.0) and not at(180.0) and not at(190.0)
    assert len(notes) == 2 and notes[1].startswith("No worker has reported for 3 minutes. ")
    assert at(beam_job._END_SECONDS) == job_server
    if job_server:
        assert "No worker has reported for 5 minutes, so the job was cancelled" in str(watch.error)
        assert "run the same command again" in str(watch.error)
    else:
        assert watch.error is None
