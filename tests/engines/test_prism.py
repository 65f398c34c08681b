"""Jobs on Prism."""

from __future__ import annotations

from tests.engines.prism import prism_server, started_by_beam


def test_a_set_is_the_one_of_the_local_engine(job, tmp_path):
    code, said = job.run(tmp_path / "set", started_by_beam())
    assert code == 0, said
    job.check(tmp_path / "set")
    assert "note: runs on PrismRunner" in said


def test_a_job_server_with_an_external_pool(job, tmp_path):
    with prism_server(tmp_path) as beam_args:
        code, said = job.run(tmp_path / "set", beam_args)
    assert code == 0, said
    job.check(tmp_path / "set")


def test_records_of_every_shape_with_an_external_pool(shaped_job, tmp_path):
    with prism_server(tmp_path) as beam_args:
        code, said = shaped_job.run(tmp_path / "set", beam_args)
    assert code == 0, said
    shaped_job.check(tmp_path / "set")


def test_an_error_in_the_data_is_one_line(images_job, tmp_path):
    code, said = images_job.run(tmp_path / "set", started_by_beam(), "--on-bad", "fail")
    assert code == 3
    # A worker is a thread of the launcher, and may say that it was interrupted after that.
    (line,) = (line for line in said.splitlines() if line.startswith("error: "))
    assert "is rejected as " in line
    assert "Traceback" not in said.partition(line)[0]


def test_a_prism_that_is_not_there_is_one_line(images_job, tmp_path):
    nowhere = tmp_path / "prism"
    args = ["--runner=PrismRunner", f"--prism_location={nowhere}"]
    code, said = images_job.run(tmp_path / "set", args)
    assert code == 3 and "Traceback" not in said
    assert said.strip().splitlines()[-1].startswith("error: The job failed on PrismRunner: ")
