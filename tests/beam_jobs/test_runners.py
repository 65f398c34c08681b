"""Which engine runs a job, with how many workers of which kind."""

from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from beam_jobs.engine.runners import choose_mode, choose_runner, uses_work_queue
from shard_format import UsageError


def workers(*beam_args, asked=None):
    runner, options = choose_runner(beam_args, asked)
    assert isinstance(runner, FnApiRunner)
    return options.view_as(DirectOptions).direct_num_workers


def test_a_quota_of_a_container_counts(monkeypatch):
    monkeypatch.setattr("beam_jobs.engine.runners.usable_cores", lambda: 1.5)
    assert workers() == 2
    assert workers(asked=5) == 5
    assert workers("--runner=DirectRunner", "--direct_num_workers=3", asked=5) == 3


@pytest.mark.parametrize(
    ("beam_args", "runs_python", "corpus_bytes", "expected"),
    [
        (["--direct_num_workers=1"], True, 1 << 30, "in_memory"),
        (["--direct_num_workers=2"], False, 1 << 30, "multi_threading"),
        (["--direct_num_workers=2"], True, 1 << 20, "multi_threading"),
        (["--direct_num_workers=2"], True, 1 << 30, "multi_processing"),
        (["--direct_running_mode=in_memory"], True, 1 << 30, "in_memory"),
    ],
)
def test_threads_or_processes(beam_args, runs_python, corpus_bytes, expected):
    _, options = choose_runner(beam_args, 4)
    choose_mode(options, beam_args, runs_python=runs_python, corpus_bytes=corpus_bytes)
    assert options.view_as(DirectOptions).direct_running_mode == expected


def test_the_work_queue_needs_bundles_that_run_once():
    assert uses_work_queue(*choose_runner([], None))
    assert not uses_work_queue(*choose_runner(["--direct_runner_bundle_repeat=1"], None))


@pytest.mark.parametrize(
    ("beam_args", "message"),
    [
        (["--runner=Nope"], "'Nope' is not a Beam runner"),
        (
            ["--direct_num_worker=2"],
            "Neither shardmill nor Beam has the option --direct_num_worker",
        ),
    ],
)
def test_mistakes_in_flags_for_beam(beam_args, message):
    with pytest.raises(UsageError, match=message):
        choose_runner(beam_args, None)
