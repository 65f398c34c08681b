"""Which engine runs a job, with how many workers of which kind."""

from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from beam_jobs.engine.clusters import describe, failure
from beam_jobs.engine.runners import choose_runner
from shard_format import InputError, UsageError


def workers(*beam_args, asked=None):
    runner, options = choose_runner(beam_args, asked)
    assert isinstance(runner, FnApiRunner)
    return options.view_as(DirectOptions).direct_num_workers


def test_a_direct_runner_is_pinned_and_gets_the_workers_that_are_asked_for():
    assert workers() == workers("--runner=DirectRunner") == 1
    assert workers(asked=5) == 5
    assert workers("--runner=DirectRunner", "--direct_num_workers=3", asked=5) == 3


@pytest.mark.parametrize(
    ("runner", "advice"),
    [("FlinkRunner", "--parallelism=N"), ("SparkRunner", "when it is started")],
)
def test_workers_are_those_of_the_local_engine(runner, advice):
    with pytest.raises(UsageError, match=f"--workers is for the local engine.*{advice}"):
        choose_runner([f"--runner={runner}"], 2)


def test_a_cluster_is_named_with_the_page_to_watch():
    args = ["--runner=FlinkRunner", "--flink_master=flink:8081"]
    assert describe(*choose_runner(args, None)) == (
        "runs on FlinkRunner. Tasks and counters: http://flink:8081. Ctrl-C cancels the job."
    )


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("Pipeline a_b failed in state FAILED: java.net.X: Refused\nat y", "java.net.X: Refused. "),
        ("Pipeline a_b failed in state CANCELLED: unknown error", "unknown error. "),
    ],
)
def test_a_failure_of_a_cluster_is_one_line(raised, said):
    runner, _ = choose_runner(["--runner=FlinkRunner"], None)
    error = failure(runner, RuntimeError(raised))
    assert isinstance(error, InputError)
    assert str(error).startswith(f"The job failed on FlinkRunner: {said}What is finished was kept.")


def test_the_traceback_of_a_bug_is_kept():
    runner, _ = choose_runner(["--runner=FlinkRunner"], None)
    bug = RuntimeError("Pipeline a failed in state FAILED: Traceback (most recent call last): ...")
    assert failure(runner, bug) is bug
    assert isinstance(failure(runner, KeyError("stage")), KeyError)


@pytest.mark.parametrize(
    ("beam_args", "message"),
    [
        (["--runner=Nope"], "'Nope' is not a Beam runner"),
        (
            ["--direct_num_worker=2"],
            "Neither shardmill nor Beam has the option --direct_num_worker",
        ),
        (["--runner=DataflowRunner", "--regoin=x"], "has the option --regoin=x"),
        (["--runner=FlinkRunner", "--job_endpoint=127.0.0.1:1"], "No Beam job server answers at"),
        (["--runner=FlinkRunner", "--job_endpoint=flink"], "its form is HOST:PORT"),
    ],
)
def test_mistakes_in_flags_for_beam(beam_args, message):
    with pytest.raises(UsageError, match=message):
        choose_runner(beam_args, None)
