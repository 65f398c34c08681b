"""Jobs on a Dask cluster of two workers."""

from __future__ import annotations

import dataclasses

import pytest

from tests.engines.dask import dask_cluster, dask_environment


@pytest.fixture(scope="module")
def dask_args(tmp_path_factory):
    with dask_cluster(tmp_path_factory.mktemp("dask")) as beam_args:
        yield beam_args


def test_a_set_is_the_one_of_the_local_engine(job, dask_args, tmp_path):
    job = dataclasses.replace(job, environment=dask_environment())
    code, said = job.run(tmp_path / "set", dask_args)
    assert code == 0, said
    job.check(tmp_path / "set")
    assert "note: runs on DaskRunner" in said


def test_an_error_in_the_data_is_one_line(images_job, dask_args, tmp_path):
    job = dataclasses.replace(images_job, environment=dask_environment())
    code, said = job.run(tmp_path / "set", dask_args, "--on-bad", "fail")
    assert code == 3
    (line,) = (line for line in said.splitlines() if line.startswith("error: "))
    assert "is rejected as " in line and "Traceback" not in said.partition(line)[0]
