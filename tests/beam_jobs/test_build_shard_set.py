"""BuildShardSet in a pipeline of one's own, and what happens to an output under a running build."""

from __future__ import annotations

import shutil

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_jobs import BuildShardSet, ImageOptions
from beam_jobs.build import begin, check_owner, locked_output, open_job
from beam_jobs.run import preprocess
from shard_format import InputError, load_manifest, naming, verify
from tests.beam_jobs.stages.merge.builds import FORCED


@pytest.fixture
def job(make_images, tmp_path):
    corpus = make_images(20)

    def make(out="set", **options):
        return ImageOptions((corpus,), tmp_path / out, resize="shorter:32", **options)

    return make


def run_pipeline(options, expected=None, merging=None):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        hashes = pipeline | BuildShardSet(options, merging=merging)
        if expected:
            assert_that(hashes, equal_to([expected]))


def test_a_pipeline_builds_the_set_of_a_job(job, tmp_path):
    expected = preprocess(job("expected", unit_size="2KiB")).manifest
    run_pipeline(job(unit_size="2KiB"), expected.root_hash)
    out = tmp_path / "set"
    assert load_manifest(out) == expected and verify(out)[1] == []
    assert (out / naming.REPORT).exists() and not (out / naming.WORK_DIR).exists()


@pytest.mark.proof
def test_a_pipeline_plans_in_rounds(job, tmp_path):
    options = {"unit_size": "2KiB", "stratify": True, "balance": "oversample", "dedup": "near"}
    expected = preprocess(job("expected", **options)).manifest
    run_pipeline(job(**options), expected.root_hash, FORCED._replace(ranges=3))
    assert load_manifest(tmp_path / "set") == expected


def test_a_result_has_counters_of_the_job(make_images, job, tmp_path):
    options = job()
    (make_images() / "class0" / "broken.jpg").write_bytes(b"\xff\xd8")
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | BuildShardSet(options)
    counters = pipeline.result.metrics().query()["counters"]
    by_name = {one.key.metric.name: one.committed for one in counters}
    set_bytes = sum(path.stat().st_size for path in (tmp_path / "set").glob("*.tfrecord*"))
    source_bytes = sum(path.stat().st_size for path in (tmp_path / "corpus").rglob("*.jpg"))
    assert {name: value for name, value in by_name.items() if value} == {
        "units_staged": 1,
        "bytes_staged": source_bytes,
        "records_read": 21,
        "records_staged": 20,
        "records_rejected_not-an-image": 1,
        "shards_written": 2,
        "records_written": 20,
        "bytes_written": set_bytes,
        "records_kept": 20,
    }


def test_a_pipeline_finds_a_finished_set(job, tmp_path):
    built = preprocess(job(no_report=True)).manifest
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*.*")}
    run_pipeline(job(no_report=True), built.root_hash)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "set").rglob("*.*")}
    assert after == before


def test_a_pipeline_resumes_a_build(job, tmp_path, monkeypatch):
    def interrupted(*_):
        raise InputError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr("beam_jobs.pipeline.commit", interrupted)
        with pytest.raises(InputError, match=r"^interrupted$"):
            preprocess(job(workers=1))
    run_pipeline(job())
    build = (tmp_path / "set" / naming.BUILD).read_text()
    assert '"units_reused": 1' in build and '"units": 1' in build


def test_mistakes_are_found_when_it_is_constructed(job, tmp_path):
    with pytest.raises(InputError, match=r"nowhere\*"):
        BuildShardSet(ImageOptions("nowhere*", "set"))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"'thesis\.tex'"):
        BuildShardSet(job())


def test_two_builds_into_one_folder(job):
    one, two = open_job(job()), open_job(job())
    with locked_output(one.workspace), pytest.raises(Exception, match="Another build is writing"):
        run_pipeline(one.options)
    with locked_output(one.workspace):
        begin(one)
        check_owner(one)
        begin(two)
        check_owner(two)
        with pytest.raises(InputError, match=r"Another build into .* took it over"):
            check_owner(one)


@pytest.mark.parametrize("stage", ["stage_unit", "plan_shards", "write_shard", "commit"])
def test_an_output_that_is_removed_is_one_message(job, tmp_path, monkeypatch, stage):
    import beam_jobs.pipeline

    real = getattr(beam_jobs.pipeline, stage)

    def remove_then_run(*arguments):
        shutil.rmtree(tmp_path / "set")
        return real(*arguments)

    monkeypatch.setattr(f"beam_jobs.pipeline.{stage}", remove_then_run)
    with pytest.raises(InputError, match="set was removed while the build was running"):
        preprocess(job(workers=1))
