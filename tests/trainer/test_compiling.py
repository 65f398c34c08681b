"""XLA, threads and memory of devices."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from shard_format import UsageError
from trainer import TrainingError, devices
from trainer.loop import Loop, StepOptions
from trainer.models.build import build_model
from trainer.strategies import STRATEGIES


def trained(jit, model="tiny:dense", **options):
    keras.utils.set_random_seed(1)
    model = build_model(model, {}, (8, 8, 3), tiny.NUM_CLASSES)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(8, jit=jit, **options))
    totals = loop.train(iter(tiny.endless(32, 8, 8).dataset), 6, lambda *_: None)
    return model.get_weights(), totals


def test_compiled_steps_are_those_of_the_others():
    plain, compiled = (trained(jit, accumulate=2, clip_norm=0.5) for jit in (False, True))
    for a, b in zip(plain[0], compiled[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert compiled[1].mean_loss == pytest.approx(plain[1].mean_loss, rel=1e-5)
    assert compiled[1].correct == plain[1].correct


def test_a_model_that_xla_cannot_compile_is_reported():
    with pytest.raises(TrainingError, match=r"XLA cannot compile .*PyFunc.* Leave --jit out"):
        trained(True, "tiny:in_python")


def test_batches_of_many_lengths_are_not_compiled(options):
    with pytest.raises(UsageError, match=r"--jit needs batches of one shape, and token ids"):
        options(jit=True, model=None, image_size=None).settled("tokens")
    with pytest.raises(UsageError, match=r"--jit does not work .*--strategy tpu"):
        options(jit=True, strategy="tpu")


def test_threads_are_refused_once_tensorflow_runs(options):
    tf.constant(1).numpy()
    with pytest.raises(UsageError, match=r"--intra-op-threads 3 comes too late: this process has"):
        devices.configure_devices(options(intra_op_threads=3))
    with pytest.raises(UsageError, match=r"--inter-op-threads 3 comes too late"):
        devices.configure_devices(options(inter_op_threads=3))
    with pytest.raises(UsageError, match=r"--gpu-memory 3GiB, and TensorFlow finds no GPU"):
        devices.configure_devices(options(gpu_memory="3GiB"))
    devices.configure_devices(options())


def test_memory_of_gpus_grows_or_has_a_limit(options, monkeypatch):
    """No GPU is there; what TensorFlow is asked for is what its documentation wants."""
    gpus, asked = ["GPU 0", "GPU 1"], []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda *values: asked.append(values)
    )
    monkeypatch.setattr(
        tf.config, "set_logical_device_configuration", lambda *values: asked.append(values)
    )
    devices.configure_devices(options())
    assert asked == [("GPU 0", True), ("GPU 1", True)]
    asked.clear()
    devices.configure_devices(options(gpu_memory="1.5GiB"))
    assert [(gpu, limits[0].memory_limit) for gpu, limits in asked] == [(g, 1536) for g in gpus]


@pytest.mark.proof
def test_threads_are_those_that_were_asked_for(run_program):
    done = run_program("threads.py", 1, 3)
    assert done.stdout.split() == ["1", "3"], done.stderr[-2000:]
