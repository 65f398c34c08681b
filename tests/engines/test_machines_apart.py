"""Flink on machines with links between them, of which one is cut in the middle of a job.

The head has JobManager, job server and launcher, two machines have a TaskManager and a pool each,
one has the object storage with the source and the set, and one the store with the staged units.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engines.flink import FlinkCluster, flink_cluster
from tests.engines.jobs import Job, ended, printed, wait_until
from tests.engines.machines import Network, machines_apart
from tests.servers.fake_gcs import fake_gcs
from tests.servers.versitygw import versitygw

_MACHINES = ("head", "worker1", "worker2", "staging", "storage")
_CUT_SECONDS = 20.0
_UNITS = 15  # of 92, that are staged when the link is cut


class Apart(NamedTuple):
    """What runs on the machines.

    Attributes:
        network: The machines.
        cluster: Flink.
        job: With source and staging in buckets.
        bucket: URL of the bucket for sets.
        sets: The folder in which the storage keeps that bucket.
        staged: The folder in which the machine for staging keeps its bucket.
    """

    network: Network
    cluster: FlinkCluster
    job: Job
    bucket: str
    sets: Path
    staged: Path


@pytest.fixture(scope="module")
def apart(slow_job, tmp_path_factory):
    """The machines; this thread is on the head."""
    folder = tmp_path_factory.mktemp("apart")
    with machines_apart(_MACHINES) as network, contextlib.ExitStack() as stack:
        for_sets, for_units = network.machines["storage"], network.machines["staging"]
        with for_sets.entered():
            s3 = stack.enter_context(versitygw(folder / "s3", host=for_sets.address))
        with for_units.entered():
            own = {"host": for_units.address, "public_host": for_units.address}
            gcs = stack.enter_context(fake_gcs(folder / "gcs", **own))
        stack.enter_context(network.machines["head"].entered())
        sets, staged = folder / "s3/buckets/shards", folder / "gcs/buckets"
        record_type, corpus, *options = slow_job.arguments
        shutil.copytree(corpus, sets / "photos")
        environment = {**s3.environment, **gcs.environment}
        job = dataclasses.replace(
            slow_job,
            arguments=(record_type, f"{s3.bucket}/photos", *options, "--staging", gcs.bucket),
            environment=environment,
        )
        machines = [network.machines[name] for name in _MACHINES[:3]]
        cluster = stack.enter_context(flink_cluster(folder / "flink", machines, environment))
        yield Apart(network, cluster, job, s3.bucket, sets, staged)


def _start(apart: Apart, tmp_path: Path, name: str):
    """The launcher of a build of s3://BUCKET/NAME, and the file of what it prints."""
    out = ("--out", f"{apart.bucket}/{name}")  # the last --out counts
    return apart.job.start(tmp_path / name, apart.cluster.beam_args, *out)


def _check(apart: Apart, name: str) -> None:
    """Asserts that the set is the local one, with nothing left of the build."""
    apart.job.check(apart.sets / name)
    shutil.rmtree(apart.sets / name)
    assert not list(apart.staged.rglob("unfinished*"))
    shutil.rmtree(apart.staged / "shards-bucket" / "units")


def test_a_job_over_links(apart, tmp_path):
    code, said = ended(_start(apart, tmp_path, "whole"), tmp_path / "whole")
    assert code == 0, said
    counts = apart.cluster.records_by_task_manager("StageUnits")
    assert min(counts.values()) > 0
    _check(apart, "whole")


@pytest.mark.parametrize("machine", ["storage", "staging", "worker2", "head"])
def test_a_link_that_is_cut_for_20_seconds(machine, apart, tmp_path, capsys):
    """The job continues when the link is mended, or the same command completes it."""
    process = _start(apart, tmp_path, machine)
    wait_until(lambda: len(list(apart.staged.rglob("*.json"))) >= _UNITS, process, "units")
    apart.network.cut(machine)
    begun = time.monotonic()
    time.sleep(_CUT_SECONDS)
    assert process.poll() is None, "the job had ended before the link was mended"
    apart.network.mend(machine)
    code, said = ended(process, tmp_path / machine)
    with capsys.disabled():
        print(f"\n{machine}: exit {code} after {time.monotonic() - begun:.0f} s", end=" ")
    if code:
        last = said.strip().splitlines()[-1]
        assert code == 3 and last.startswith("error: "), said
        assert "run the same command again" in last and "Traceback" not in said
        code, _ = ended(_start(apart, tmp_path, machine), tmp_path / machine)
        assert code == 0, printed(tmp_path / machine)
    _check(apart, machine)
