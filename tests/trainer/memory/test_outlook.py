"""What a training is said to need, against what it needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.errors import UsageError
from trainer.memory.outlook import outlook, require_memory
from trainer.memory.traced import PIPELINE

# TensorFlow's gradient of a convolution takes 30 MB on a CPU, whatever its size, and two may run.
SCRATCH = 2 * 30 << 20
ROOT = Path(__file__).parents[3]


def shardmill(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )


@pytest.fixture
def data(write_set, tmp_path):
    write_set(train=64)
    return tmp_path / "data"


def test_parts_are_what_is_there(write_set, options):
    write_set(train=32)
    shown = outlook(options(batch_size=32, model="tiny:dense"), measure=False)
    (one,) = shown.footprints
    assert one.parameters >= 4 * shown.num_parameters
    assert one.optimizer >= 2 * 4 * shown.num_parameters  # AdamW
    assert one.step > 0
    assert shown.fits
    assert shown.fitting() == []
    for flag in {way.flag for way in shown.ways}:
        sizes = [way.bytes for way in shown.ways if way.flag == flag]
        assert sizes == sorted(sizes, reverse=True)
        assert flag == PIPELINE or sizes[0] <= one.total + one.parameters


def test_what_does_not_fit_is_refused_with_what_does(write_set, options, tmp_path):
    write_set(train=32)
    asked = {"batch_size": 32, "model": "tiny:branched"}
    (one,) = outlook(options(**asked), measure=False).footprints
    require_memory(options(**asked, device_memory=str(one.total)))
    with pytest.raises(UsageError, match="more than --device-memory") as refusal:
        require_memory(options(**asked, device_memory=str(one.total - 1)))
    assert "Pass --" in str(refusal.value)
    assert not (tmp_path / "run").exists()


def test_strategies_of_several_processes_are_not_estimated(write_set, options):
    write_set(train=32)
    with pytest.raises(UsageError, match="not for multi_worker"):
        require_memory(options(strategy="multi_worker", device_memory="1GiB"))


@pytest.mark.proof
@pytest.mark.parametrize(
    "arguments",
    [
        ("--batch-size", 64, "--image-size", 96),
        ("--batch-size", 64, "--image-size", 96, "--accumulate", 4),
        ("--batch-size", 64, "--image-size", 96, "--precision", "mixed_bfloat16"),
        ("--batch-size", 16, "--image-size", 64, "--model", "mobilenet_v2"),
    ],
)
def test_estimates_are_near_what_was_measured(data, arguments):
    done = shardmill("train", data, *arguments, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    (one,) = shown["devices"]
    measured = shown["measured"]["CPU"]
    assert 0.65 * measured - SCRATCH <= one["estimated"] <= 1.1 * measured


@pytest.mark.proof
def test_a_model_that_one_device_is_refused_trains_in_stages(data, tmp_path):
    arguments = ("train", data, "--batch-size", 64, "--image-size", 96, "--epochs", 1)
    arguments += ("--device-memory", "170MiB", "--run-dir", tmp_path / "run")
    refused = shardmill(*arguments)
    assert refused.returncode == 2
    assert "--strategy pipeline --stages 2" in refused.stderr
    assert not (tmp_path / "run").exists()
    stages = ("--strategy", "pipeline", "--stages", 2)
    shown = json.loads(shardmill(*arguments, *stages, "--dry-run", "--json").stdout)
    assert shown["fits"]
    assert len(shown["devices"]) == 2
    # All parts at once are the most that there can be, and TensorFlow has fewer.
    together = sum(device["estimated"] for device in shown["devices"])
    assert 0.3 * together <= shown["measured"]["CPU"] <= 1.1 * together
    trained = shardmill(*arguments, *stages)
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run/model.keras").exists()


@pytest.mark.proof
def test_a_model_that_one_device_of_jax_is_refused_trains_on_a_mesh(data, tmp_path):
    arguments = ("train", data, "--batch-size", 64, "--image-size", 96, "--epochs", 1)
    arguments += ("--backend", "jax", "--run-dir", tmp_path / "run")
    mesh = ("--strategy", "model_parallel", "--mesh", "data=2,model=2")
    four = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    one = json.loads(shardmill(*arguments, "--dry-run", "--json", **four).stdout)
    divided = json.loads(shardmill(*arguments, *mesh, "--dry-run", "--json", **four).stdout)
    (alone,), devices = one["devices"], divided["devices"]
    assert len(devices) == 4
    for device in devices:
        assert device["parameters"] < 0.6 * alone["parameters"]
        assert device["optimizer"] < 0.6 * alone["optimizer"]
        assert device["step"] < 0.5 * alone["step"]
    assert [(way["flag"].split()[-1], way["number"]) for way in one["ways"]] == [
        ("data=N", 4),
        ("model=N", 4),
    ]
    assert all(way["bytes"] < alone["estimated"] for way in one["ways"])

    limit = ("--device-memory", (alone["estimated"] + devices[0]["estimated"]) // 2)
    refused = shardmill(*arguments, *limit, **four)
    assert refused.returncode == 2
    assert "Pass --strategy model_parallel --mesh data=" in refused.stderr
    assert not (tmp_path / "run").exists()
    layout = tmp_path / "layout"  # with names of layers, after other models were looked at
    layout.write_text("^conv2d_1/kernel$ 3\n")
    trained = shardmill(*arguments, *limit, *mesh, "--layout", layout, **four)
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run/model.keras").exists()


@pytest.mark.proof
def test_a_device_without_memory_ends_the_run_with_a_word(data, tmp_path):
    arguments = ("train", data, "--batch-size", 64, "--image-size", 96, "--epochs", 1)
    limit = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "120"}
    done = shardmill(*arguments, "--run-dir", tmp_path / "run", **limit)
    assert done.returncode == 3, done.stderr
    assert "error: A device has no memory left: 'OOM when allocating" in done.stderr
    assert "--dry-run" in done.stderr
    less = shardmill(*arguments, "--run-dir", tmp_path / "less", "--accumulate", 8, **limit)
    assert less.returncode == 0, less.stderr


@pytest.mark.proof
def test_what_would_be_launched_is_not_estimated_as_one_process(data):
    done = shardmill("train", data, "--local-workers", 2, "--dry-run")
    assert done.returncode == 2
    assert "not for multi_worker" in done.stderr
