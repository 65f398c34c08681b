"""The strategies of one process; several processes are in test_workers.py."""

import json

import pytest

from shard_format import UsageError
from trainer.diagnosis.measuring import open_job
from trainer.precision import resolve


@pytest.mark.proof  # test_mirrored has several replicas in make test
def test_every_strategy_learns_what_the_default_one_learns(run_program):
    done = run_program("strategies.py", "default", "one_device", "central_storage")
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    losses = report["default"]["losses"]
    assert report["one_device"] == report["default"]
    assert report["central_storage"]["num_replicas"] == 2
    assert report["central_storage"]["losses"] == pytest.approx(losses, abs=1e-5)
    # BatchNorm and dropout update variables in a step, which the strategy refuses by itself.
    assert report["norm"]["num_replicas"] == 2
    assert report["norm"]["precision"] == resolve("auto")  # without a GPU
    assert "--precision mixed_float16 does not work with --strategy central" in report["float16"]
    assert report["tpu"].startswith("TensorFlow finds no TPU 'local' for --strategy tpu: ")


@pytest.mark.parametrize("strategy", ["multi_worker", "tpu"])
def test_the_doctor_looks_at_one_machine(options, strategy):
    with pytest.raises(UsageError, match=f"does not measure --strategy {strategy}"):
        open_job(options(strategy=strategy))
