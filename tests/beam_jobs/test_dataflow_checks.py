"""What Dataflow would refuse after minutes, or after the corpus is listed, is refused at once."""

from __future__ import annotations

import pytest

from beam_jobs import preprocess
from beam_jobs.engine.logs import submits_only
from beam_jobs.options import ImageOptions
from beam_jobs.submit import submit
from shard_format import UsageError

BUCKET = "--temp_location=gs://bkt-stage/tmp"
IMAGE = "--sdk_container_image=example.org/shardmill:1"
JOB = ["--runner=DataflowRunner", "--project=my-project-1", "--region=us-central1"]


@pytest.fixture
def options(samples, tmp_path):
    return ImageOptions((str(samples),), str(tmp_path / "set"))


@pytest.mark.parametrize("start", [preprocess, submit])
def test_a_corpus_on_this_machine_is_refused(options, start, tmp_path):
    with pytest.raises(UsageError, match="is on this machine, which workers of Dataflow cannot"):
        start(options, [*JOB, BUCKET, IMAGE])
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([IMAGE], "--temp_location is missing"),
        ([BUCKET], "Workers would have no shardmill. Add --sdk_container_image"),
    ],
)
def test_a_missing_option_of_dataflow_is_named(given, message):
    options = ImageOptions(("gs://bkt/photos",), "gs://bkt/set")
    with pytest.raises(UsageError, match=message):
        submit(options, [*JOB, *given])


def test_a_local_place_in_any_option_is_named():
    options = ImageOptions(("gs://bkt/photos",), "gs://bkt/set", labels="/data/labels.csv")
    with pytest.raises(UsageError, match=r"--labels /data/labels.csv is on this machine"):
        submit(options, [*JOB, BUCKET, IMAGE])


def test_the_local_engine_cannot_be_submitted_to(options):
    with pytest.raises(UsageError, match="ends with the launcher"):
        submit(options, ["--no_wait_until_finish"])


def test_only_a_template_and_a_job_that_nobody_waits_for_are_submissions():
    assert submits_only(["--template_location=gs://bkt/template"])
    assert submits_only(["--template_location", "gs://bkt/template"])
    assert submits_only([*JOB, "--no_wait_until_finish"])
    assert not submits_only([*JOB, BUCKET])
    assert not submits_only([])
