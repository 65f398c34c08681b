"""Training on Keras with JAX, on one device and on 8, against TensorFlow."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tiny
from outcomes import assert_near, assert_same

from foundation.errors import UsageError
from trainer.models import MODELS
from trainer.models.build import build_model
from trainer.options import TrainOptions, mesh_sizes
from trainer.run import train_on

ROOT = Path(__file__).parents[2]
DIVIDED = {"strategy": "model_parallel", "mesh": "data=2,model=4"}


@pytest.fixture
def reports(run_reports):
    return lambda *options: run_reports("on_jax.py", options)


def on_tensorflow(folder, model, **changes):
    """The same from weights in a file, and the file, since backends draw other random numbers."""
    path = folder / "begin.keras"
    build_model(model, MODELS, (8, 8, 3), tiny.NUM_CLASSES).save(path)
    given = {"image_size": 8, "batch_size": 16, "precision": "float32", "weights": path}
    given |= {"model": model, **changes}
    options = TrainOptions("none", folder / "tensorflow", **given)
    result = train_on(tiny.data(batch_size=16, validation=16), options)
    weights = keras.models.load_model(result.model_path).get_weights()
    final = result.final
    return str(path), {"loss": final.loss, "val_loss": final.val_loss, "weights": weights}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("tiny:dense", {"optimizer": "sgd", "learning_rate": 0.05}),
        ("tiny:dense", {"optimizer": "sgd", "clip_norm": 0.1, "ema": 0.9}),
        ("tiny:dense", {"optimizer": "sgd", "label_smoothing": 0.1, "epochs": 3}),
        ("tiny:with_norm_without_dropout", {"optimizer": "sgd"}),
    ],
)
def test_jax_and_its_devices_learn_what_tensorflow_learns(reports, tmp_path, model, changes):
    changes = {"epochs": 25} | changes  # 50 steps
    weights, expected = on_tensorflow(tmp_path, model, **changes)
    shared = {"model": model, "weights": weights, **changes}
    one, *divided = reports(
        shared,
        shared | DIVIDED,
        shared | DIVIDED | {"mesh": "model=8"},
        shared | DIVIDED | {"mesh": "data=8"},
    )
    assert all(isinstance(report, dict) for report in (one, *divided)), (one, divided)
    for report in (one, *divided):
        assert_near(report, expected, 1e-5)


def test_a_model_on_a_mesh_is_that_of_one_device_and_takes_a_part_of_its_memory(reports, tmp_path):
    layout = tmp_path / "layout"
    layout.write_text("\nkernel$\t0\n")
    wrong, unused, short = tmp_path / "wrong", tmp_path / "unused", tmp_path / "short"
    wrong.write_text("dense/kernel$ first\n")
    unused.write_text("kernel$ 7\n")
    short.write_text("kernel$\n")
    one, four, eight, *refused = reports(
        {},
        DIVIDED,
        DIVIDED | {"mesh": "model=8", "layout": str(layout)},
        DIVIDED | {"mesh": "data=4,model=4"},
        DIVIDED | {"layout": str(wrong)},
        DIVIDED | {"mesh": "data=3"},
        {"strategy": "mirrored"},
        {"accumulate": 2},
        {"sync_batch_norm": True},
        {"local_workers": 1},
        DIVIDED | {"layout": str(unused)},
        DIVIDED | {"layout": str(short)},
    )
    assert_near(four, one, 1e-5)
    assert_near(eight, one, 1e-5)
    assert one["bytes"] > 3 * four["bytes"] > 3 * 1.5 * eight["bytes"]
    assert "--mesh data=4,model=4 needs 16 devices, and JAX sees 8" in refused[0]
    assert f"Line 1 of {wrong} is 'dense/kernel$ first'" in refused[1]
    assert "--batch-size 16 is not a multiple of the 3 parts of --mesh data=3" in refused[2]
    assert "--strategy mirrored is one of TensorFlow" in refused[3]
    assert "--accumulate is for TensorFlow" in refused[4]
    assert "--sync-batch-norm is for TensorFlow" in refused[5]
    assert "--local-workers is for TensorFlow" in refused[6]
    assert "The rule 'kernel$ 7' of --layout decides for no weight" in refused[7]
    assert f"Line 1 of {short} is 'kernel$'" in refused[8]


@pytest.mark.proof
def test_a_run_stops_and_goes_on_with_the_same_bits_or_on_another_mesh(reports, tmp_path):
    model = {"model": "tiny:with_norm", "epochs": 4}
    divided, moved = (model | DIVIDED | {"run_dir": str(tmp_path / name)} for name in "ab")
    whole, first, last, begun, other = reports(
        model | DIVIDED,
        divided | {"stop_after": 2},
        divided,
        moved | {"stop_after": 2},
        moved | {"mesh": "data=4,model=2"},
    )
    assert [first, begun] == ["stopped"] * 2
    assert all(map(np.array_equal, last["weights"], whole["weights"]))
    assert_near(other, whole, 1e-5)


@pytest.mark.proof
def test_float16_scales_the_loss_and_bfloat16_does_not(reports):
    full, half, brain = reports(
        {"epochs": 4},
        {"epochs": 4, "precision": "mixed_float16", **DIVIDED},
        {"epochs": 4, "precision": "mixed_bfloat16", **DIVIDED},
    )
    assert half["scale"] == 2.0**15
    assert brain["scale"] is None
    assert half["loss"] == pytest.approx(full["loss"], abs=0.01)
    assert brain["loss"] == pytest.approx(full["loss"], abs=0.05)


@pytest.mark.proof
def test_an_overflow_skips_the_step_and_halves_the_scale(reports):
    """The first gradients of a loss times 2**15 are infinite where inputs are that large."""
    (report,) = reports({"precision": "mixed_float16", "model": "tiny:overflowing", "epochs": 8})
    assert report["scale"] < 2.0**15
    assert np.isfinite(report["loss"])


@pytest.mark.proof
def test_kills_of_a_run_on_a_mesh_leave_no_trace(write_set, tmp_path):
    data = write_set(train=64, validation=16)
    options = ["--batch-size", "16", "--image-size", "8", "--epochs", "4", "--precision", "float32"]
    options += ["--backend", "jax", "--strategy", "model_parallel", "--mesh", "data=2,model=4"]
    options += ["--model", "small_cnn", "--checkpoint-minutes", "0.000001"]

    def start(run):
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", "train", str(data), "--run-dir", str(run), *options],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    whole = start(tmp_path / "whole")
    assert whole.wait(timeout=300) == 0, whole.stderr.read()
    for name in ("ckpt-1.index", "ckpt-2.json", "ckpt-4.data-00000-of-00001", "best.keras"):
        killed = start(tmp_path / "cut")
        while killed.poll() is None and not [*(tmp_path / "cut").rglob(name)]:
            time.sleep(0.005)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    last = start(tmp_path / "cut")
    assert last.wait(timeout=300) == 0, last.stderr.read()
    assert_same(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("text", ["", "model", "model=0", "model=2,model=2", "rows=2", "data=-1"])
def test_what_is_no_mesh_is_refused(text):
    with pytest.raises(UsageError, match="Pass sizes of two axes"):
        mesh_sizes("--mesh", text)


def test_options_of_meshes_need_their_strategy(options):
    with pytest.raises(UsageError, match="Pass --backend jax --mesh"):
        options(strategy="model_parallel")
    with pytest.raises(UsageError, match="--mesh is for --strategy model_parallel"):
        options(mesh="model=2", backend="jax")
