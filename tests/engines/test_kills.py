"""Kills on Flink at a seeded number of staged units; benchmarks/engine_kills.py has more."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import time

import pytest

from beam_jobs import ImageOptions, preprocess
from beam_jobs.engine import beam_job
from shard_format import InputError
from tests.engines.flink import POOLS, TASK_MANAGERS
from tests.engines.jobs import IN_ROUNDS, kill_launcher, planned_files, staged_units, wait_until
from tests.engines.kills import kill_and_finish


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("victims", [TASK_MANAGERS, POOLS], ids=["taskmanager", "pool"])
def test_a_killed_worker_that_is_started_again(victims, seed, flink, slow_job, tmp_path):
    draw = random.Random(seed)
    victim, units = draw.choice(victims), draw.randint(1, slow_job.units)
    kill_and_finish(flink, slow_job, tmp_path / "set", victim, units)


@pytest.mark.parametrize("victims", [TASK_MANAGERS, POOLS], ids=["taskmanager", "pool"])
def test_a_worker_that_is_killed_while_all_plan(victims, flink, slow_job, tmp_path):
    job = dataclasses.replace(slow_job, program=IN_ROUNDS)
    draw = random.Random(str(victims))
    victim, files = draw.choice(victims), draw.randint(5, 60)
    kill_and_finish(flink, job, tmp_path / "set", victim, files, done=planned_files)


def test_a_killed_pool_that_stays_away(flink, slow_job, tmp_path):
    """No job waits forever: it ends on the other machine, or fails after Flink's attempts."""
    kill_and_finish(flink, slow_job, tmp_path / "set", POOLS[0], slow_job.units // 4, again=False)


def test_a_pool_that_promises_workers_that_never_come(flink, slow_job, tmp_path, monkeypatch):
    """Beam waits for them without a limit; the launcher does not, and says what to do."""
    monkeypatch.setattr(beam_job, "_NOTE_SECONDS", 20.0)
    monkeypatch.setattr(beam_job, "_END_SECONDS", 40.0)
    out, notes = tmp_path / "set", []
    options = ImageOptions(
        (slow_job.arguments[1],),
        str(out),
        resize="shorter:400",
        encoding="webp",
        unit_size="256KiB",
        label_pattern="[^/]+/(?P<label>[^/]+)/",
        num_shards=6,
        no_report=True,
    )

    def break_pool(stage, done, total):
        if stage == "stage" and done:
            with contextlib.suppress(ProcessLookupError):
                os.kill(flink.processes.pid(POOLS[0]), signal.SIGUSR1)

    with pytest.raises(InputError, match=r"No worker has reported for .* run the same command"):
        preprocess(options, flink.beam_args, break_pool, notes.append)
    assert any(note.startswith("No worker has reported for ") for note in notes)
    for name in (POOLS[0], TASK_MANAGERS[0]):  # the task in it waits forever
        flink.processes.kill(name)
        flink.start_again(name)
    code, said = slow_job.run(out, flink.beam_args)
    assert code == 0, said
    slow_job.check(out)


def test_a_killed_job_manager(flink, slow_job, tmp_path):
    """Without high availability Flink forgets the job, and the launcher says so."""
    kill = kill_and_finish(flink, slow_job, tmp_path / "set", "jobmanager", slow_job.units // 3)
    assert not kill.by_itself


def test_a_killed_job_server(flink, slow_job, tmp_path):
    kill = kill_and_finish(flink, slow_job, tmp_path / "set", "jobserver", slow_job.units // 3)
    assert not kill.by_itself


@pytest.mark.parametrize("waits", [True, False], ids=["job over", "job running"])
def test_a_killed_launcher(waits, flink, slow_job, tmp_path):
    """The job continues without it; the same command finishes the build, or takes it over."""
    out = tmp_path / "set"
    process = slow_job.start(out, flink.beam_args)
    wait_until(lambda: staged_units(out) > 2, process, "units")
    kill_launcher(process)
    deadline = time.monotonic() + 600
    while waits and flink.state_of_last_job() == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    code, said = slow_job.run(out, flink.beam_args)
    assert code == 0, said
    slow_job.check(out)
