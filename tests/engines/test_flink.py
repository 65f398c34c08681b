"""Jobs on a Flink cluster of two TaskManagers: the set, the work, the counters, the errors."""

from __future__ import annotations

import dataclasses
import re
import time

import apache_beam as beam

from beam_jobs import BuildShardSet, ImageOptions, preprocess
from beam_jobs.engine.runners import choose_runner
from beam_jobs.stages.plan.merge_levels import OBJECT_STORE, MergeLimits, Merging
from shard_format import load_build, load_manifest
from tests.engines.flink import TASK_MANAGERS
from tests.engines.jobs import IN_ROUNDS, ended, kill_launcher, staged_units, wait_until


def test_a_set_is_the_one_of_the_local_engine_and_both_machines_work(job, flink, tmp_path, capsys):
    out = tmp_path / "set"
    code, said = job.run(out, flink.beam_args)
    assert code == 0, said
    job.check(out)
    units = flink.records_by_task_manager("StageUnits")
    with capsys.disabled():
        print(f"\nunits staged: {units}")
    assert set(units) == set(TASK_MANAGERS)
    assert sum(units.values()) == load_build(out)["units"] >= 20
    assert min(units.values()) >= 0.4 * sum(units.values())
    # The launcher has seen all of it.
    assert f"note: runs on FlinkRunner, job server {flink.job_endpoint}" in said
    for stage in ("list", "stage", "shard", "commit"):
        (last,) = re.findall(rf"^{stage} +━.*$", said, re.MULTILINE)
        done, total = re.search(r"([\d.,]+)(?: \w+)?/([\d.,]+)", last).groups()
        assert done == total, last
    assert f"root hash  {job.root_hash}" in said


def test_records_of_every_shape(shaped_job, flink, tmp_path):
    code, said = shaped_job.run(tmp_path / "set", flink.beam_args)
    assert code == 0, said
    shaped_job.check(tmp_path / "set")


def test_a_stage_begins_when_the_one_before_has_ended(images_job, flink, tmp_path):
    out = tmp_path / "set"
    code, said = images_job.run(out, flink.beam_args)
    assert code == 0, said
    tasks = {stage: flink.times_of(stage) for stage in ("StageUnits", "PlanShards", "WriteShards")}
    # Planning waits for all units, and staging runs at the same time on both machines.
    assert max(end for _, end in tasks["StageUnits"]) <= min(at for at, _ in tasks["PlanShards"])
    assert max(at for at, _ in tasks["StageUnits"]) < min(end for _, end in tasks["StageUnits"])
    assert max(at for at, _ in tasks["WriteShards"]) < min(end for _, end in tasks["WriteShards"])


def test_counters_are_beam_metrics(samples, flink, tmp_path):
    options = ImageOptions((str(samples),), str(tmp_path / "set"), resize="shorter:64")
    runner, beam_options = choose_runner(flink.beam_args, None)
    pipeline = beam.Pipeline(runner=runner, options=beam_options)
    _ = pipeline | BuildShardSet(options)
    result = pipeline.run()
    result.wait_until_finish()
    counters = {one.key.metric.name: one.result for one in result.metrics().query()["counters"]}
    manifest = load_manifest(tmp_path / "set")
    assert counters["records_read"] == manifest.ledger.read == 324
    assert counters["records_kept"] == counters["records_written"] == manifest.ledger.kept
    assert counters["records_rejected_truncated"] == 1
    assert counters["shards_written"] == sum(len(s.shards) for s in manifest.splits.values())
    shown = flink.accumulators()
    assert '"NAME": "records_read"' in shown and '"NAMESPACE": "shardmill"' in shown


def test_units_are_planned_in_rounds_and_merged_in_levels(samples, flink, tmp_path):
    given = {"resize": "shorter:64", "unit_size": "128KiB", "num_shards": 20}
    local = preprocess(ImageOptions((str(samples),), str(tmp_path / "local"), **given))
    # Requests that are dear enough for a corpus of 4 MB.
    cost = OBJECT_STORE._replace(read_dollars=1.0)
    merging = Merging(cost, MergeLimits(block_bytes=1 << 16), 2, ranges=4)
    runner, beam_options = choose_runner(flink.beam_args, None)
    with beam.Pipeline(runner=runner, options=beam_options) as pipeline:
        options = ImageOptions((str(samples),), str(tmp_path / "set"), **given)
        _ = pipeline | BuildShardSet(options, merging=merging)
    assert load_manifest(tmp_path / "set").root_hash == local.manifest.root_hash
    for stage in ("JoinClusters", "OrderKeys", "Merge1", "Merge2"):
        assert sum(flink.records_by_task_manager(stage).values()) > 1


def test_near_duplicates_are_found_in_rounds(images_job, flink, tmp_path):
    """In so many steps that Flink has no network buffers for all of them behind one."""
    job = dataclasses.replace(images_job, program=IN_ROUNDS)
    code, said = job.run(tmp_path / "set", flink.beam_args)
    assert code == 0, said
    job.check(tmp_path / "set")
    assert sum(flink.records_by_task_manager("VerifyPairs").values()) > 1


def test_an_error_in_the_data_ends_the_job_at_once(images_job, flink, tmp_path):
    begun = time.monotonic()
    code, said = images_job.run(tmp_path / "set", flink.beam_args, "--on-bad", "fail")
    assert code == 3
    last = said.strip().splitlines()[-1]
    assert last.startswith("error: ") and "is rejected as " in last
    assert "Traceback" not in said
    # Ten attempts of Flink would take longer.
    assert time.monotonic() - begun < 120


def test_a_worker_pool_that_is_not_there_is_one_line(images_job, flink, tmp_path):
    args = [re.sub(r"beam-workers:\d+", "beam-workers:1", arg) for arg in flink.beam_args]
    code, said = images_job.run(tmp_path / "set", args)
    assert code == 3
    last = said.strip().splitlines()[-1]
    assert last.startswith("error: The job failed on FlinkRunner: ")
    assert "Connection refused" in last and "run the same command again" in last
    assert "Traceback" not in said


def test_ctrl_c_cancels_the_job(slow_job, flink, tmp_path):
    out = tmp_path / "set"
    process = slow_job.start(out, flink.beam_args)
    try:
        wait_until(lambda: staged_units(out) > 1, process, "units")
        process.send_signal(2)
        assert process.wait(60) == 130
    finally:
        kill_launcher(process)
    # Beam's job server does not cancel it in Flink, but its tasks do nothing more.
    deadline = time.monotonic() + 120
    while flink.state_of_last_job() not in ("FINISHED", "CANCELED"):
        assert time.monotonic() < deadline, flink.state_of_last_job()
        time.sleep(0.2)
    assert staged_units(out) < 40
    code, said = ended(slow_job.start(out, flink.beam_args), out)
    assert code == 0, said
    slow_job.check(out)
