"""Jobs on Spark."""

from __future__ import annotations

import pytest

from tests.engines.spark import spark_server


@pytest.fixture(scope="module")
def spark_args(tmp_path_factory):
    with spark_server(tmp_path_factory.mktemp("spark")) as beam_args:
        yield beam_args


def test_a_set_is_the_one_of_the_local_engine(job, spark_args, tmp_path):
    code, said = job.run(tmp_path / "set", spark_args)
    assert code == 0, said
    job.check(tmp_path / "set")


def test_an_error_in_the_data_is_one_line(images_job, spark_args, tmp_path):
    code, said = images_job.run(tmp_path / "set", spark_args, "--on-bad", "fail")
    assert code == 3
    last = said.strip().splitlines()[-1]
    assert last.startswith("error: ") and "is rejected as " in last and "Traceback" not in said
