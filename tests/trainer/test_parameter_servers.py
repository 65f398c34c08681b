"""Asynchronous training: real chiefs, workers and parameter servers, and what is lost of them."""

import json
import os
import re
import signal
import socket
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from launched import LOST, Runs, children, finished

from shard_format import UsageError
from trainer import train
from trainer.checkpointing.checkpoints import latest_progress
from trainer.data import open_data
from trainer.optimization import OPTIMIZERS
from trainer.parameter_servers.remote_state import RemoteState


def free_ports(count):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


SERVED = ("--local-workers", 2, "--parameter-servers")


@pytest.fixture
def runs(write_set):
    made = Runs(write_set(train=251, validation=61), "--model", "tiny:wide", "--epochs", 2)
    yield made
    made.end()


def await_checkpoint(run, process):
    """Returns when there is another latest checkpoint than now."""
    path, end = run / "checkpoints" / "checkpoint", time.monotonic() + 200
    before = path.read_text() if path.exists() else ""
    while not path.exists() or path.read_text() == before:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def history(run):
    return json.loads((run / "history.json").read_text())


def assert_validated(run, data, options):
    """The last validation is that of the saved model, on every record once."""
    model = keras.models.load_model(run / "model.keras")
    stream = open_data(options(data=data, batch_size=24)).validation
    right = losses = count = 0
    for images, labels in stream.dataset:
        outputs = model(tf.cast(images, tf.float32))
        losses += float(
            tf.reduce_sum(keras.losses.sparse_categorical_crossentropy(labels, outputs))
        )
        right += int(np.sum(np.argmax(outputs, axis=1) == labels.numpy()))
        count += len(labels)
    last = history(run)[-1]
    assert count == 61
    assert last["val_accuracy"] == pytest.approx(right / count)
    assert last["val_loss"] == pytest.approx(losses / count, abs=1e-4)


@pytest.mark.proof
def test_workers_train_what_parameter_servers_hold(runs, tmp_path, options):
    run = tmp_path / "run"
    _, err = finished(runs.start(run, *SERVED, 1))
    assert "workers: 2, each at its own speed; parameter servers: 1, which hold" in err
    assert [epoch["epoch"] for epoch in history(run)] == [1, 2]
    assert latest_progress(run / "checkpoints").epochs_done == 2
    assert_validated(run, runs.data, options)
    logs = {path.name for path in (run / "workers").iterdir()}
    assert logs == {"worker-0.log", "worker-1.log", "ps-0.log"}
    said = (run / "workers" / "ps-0.log").read_text()
    assert re.search(r"parameter server 0 \(127\.0\.0\.1:\d+\) serves the chief", said)
    assert "error" not in said


@pytest.mark.proof
def test_a_lost_worker_is_replaced_while_the_other_trains(runs, tmp_path, options):
    run = tmp_path / "run"
    arguments = ("--epochs", 40, "--checkpoint-minutes", 0.05, "--restarts", 1)
    process = runs.start(run, *SERVED, 2, *arguments)
    await_checkpoint(run, process)
    chief = children(process.pid)["chief-0"]
    os.kill(children(process.pid)["worker-1"], signal.SIGKILL)
    await_checkpoint(run, process)  # without it, or with its successor
    assert children(process.pid)["chief-0"] == chief
    _, err = finished(process)
    assert "worker 1 ended by SIGKILL\nworker 1 starts again (0 restarts left)" in err
    assert re.search(r"note: worker 1 \(127\.0\.0\.1:\d+\) does not answer", err)
    assert len(history(run)) == 40
    assert_validated(run, runs.data, options)


@pytest.mark.proof
def test_a_run_ends_with_a_lost_parameter_server_and_resumes(runs, tmp_path, options):
    """With another number of them, and at last under another strategy."""
    run = tmp_path / "run"
    process = runs.start(run, *SERVED, 2, "--epochs", 8, "--checkpoint-minutes", 0.02)
    await_checkpoint(run, process)
    os.kill(children(process.pid)["ps-1"], signal.SIGKILL)
    _, err = finished(process, LOST)
    assert re.search(r"error: Parameter server 1 \(127\.0\.0\.1:\d+\) ended", err)
    place = latest_progress(run / "checkpoints")
    assert place.step or place.epochs_done
    assert not children(process.pid)

    process = runs.start(run, *SERVED, 1, "--epochs", 8, "--checkpoint-minutes", 0.02)
    await_checkpoint(run, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 143), (out, err)
    given = options(
        data=runs.data, run_dir=run, model="tiny:wide", batch_size=24, epochs=8, augment=None
    )
    train(given)
    assert [epoch["epoch"] for epoch in history(run)] == list(range(1, 9))
    assert_validated(run, runs.data, options)


@pytest.mark.proof
def test_a_lost_chief_begins_again_at_its_checkpoint(runs, tmp_path, options):
    run = tmp_path / "run"
    process = runs.start(
        run, *SERVED, 1, "--checkpoint-minutes", 0.02, "--restarts", 1, "--epochs", 6
    )
    await_checkpoint(run, process)
    os.kill(children(process.pid)["chief-0"], signal.SIGKILL)
    _, err = finished(process)
    assert "the chief ended by SIGKILL\nall processes start again (0 restarts left)" in err
    assert_validated(run, runs.data, options)


@pytest.mark.proof
def test_a_worker_with_another_set_is_refused(runs, tmp_path):
    run = tmp_path / "run"
    process = runs.start(run, *SERVED, 1, "--epochs", 1000, "--checkpoint-minutes", 0.02)
    await_checkpoint(run, process)
    with open(runs.data / "manifest.json", "a") as file:
        file.write("\n")
    _, err = finished(process, 3)
    assert "error: The set is another one on a worker than on the chief." in err


@pytest.mark.proof
def test_a_chief_that_starts_again_finds_the_others(runs, tmp_path, options):
    """As in Kubernetes, where each container is started again by itself; a worker never is."""
    addresses = iter(f"127.0.0.1:{port}" for port in free_ports(4))
    cluster = {"chief": [next(addresses)], "worker": [next(addresses), next(addresses)]}
    cluster["ps"] = [next(addresses)]
    run = tmp_path / "run"

    def start(job, number=0):
        config = json.dumps({"cluster": cluster, "task": {"type": job, "index": number}})
        own = run if job == "chief" else tmp_path / "nothing"
        arguments = ("--epochs", 8, "--checkpoint-minutes", 0.02)
        strategy = ("--strategy", "parameter_server")
        return runs.start(own, *arguments, *strategy, TF_CONFIG=config)

    chief, kept, lost, server = start("chief"), start("worker"), start("worker", 1), start("ps")
    await_checkpoint(run, chief)
    chief.kill()
    chief.wait()
    chief = start("chief")
    await_checkpoint(run, chief)
    lost.kill()
    _, err = finished(chief)
    assert re.search(r"note: worker 1 \(127\.0\.0\.1:\d+\) does not answer", err)
    assert_validated(run, runs.data, options)
    for process in (kept, server):
        _, err = finished(process)
        assert "error" not in err
    assert not (tmp_path / "nothing").exists()


def divided(model):
    """The same model with every weight of 8 rows or more in parts, as parameter servers have it."""
    for weight in model.variables:
        if weight.shape and weight.shape[0] >= 8:
            rows = [
                weight.shape[0] // 3,
                weight.shape[0] // 3,
                weight.shape[0] - 2 * (weight.shape[0] // 3),
            ]
            parts = [tf.Variable(part, name=weight.name) for part in tf.split(weight.value, rows)]
            weight._value = tf.__internal__.distribute.ShardedVariable(parts)
    return model


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_on_parts_is_a_step_on_the_whole(name):
    """Except for the trust ratio of lamb, which is that of each part."""
    keras.utils.set_random_seed(0)
    whole, other = tiny.dense((8, 8, 3), 3), divided(tiny.dense((8, 8, 3), 3))
    optimizer = OPTIMIZERS[name](0.1, 0.01)
    optimizer.build(whole.trainable_variables)
    remote = RemoteState(other, lambda: OPTIMIZERS[name](0.1, 0.01), whole, optimizer)
    assert len(remote.parts) > len(whole.trainable_variables)
    remote.push()
    images, _ = tiny.make_images(16, 8, 0)
    expected = [variable.numpy() for variable in whole.variables]
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(other(tf.cast(images, tf.float32))[:, 0])
        remote.optimizer.apply(tape.gradient(loss, remote.parts), remote.parts)
    with tf.device("/CPU:0"):
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(whole(tf.cast(images, tf.float32))[:, 0])
            gradients = tape.gradient(loss, whole.trainable_variables)
            optimizer.apply(gradients, whole.trainable_variables)
    stepped = [variable.numpy() for variable in (*whole.variables, *optimizer.variables)]
    for variable in (*whole.variables, *optimizer.variables):
        variable.assign(tf.zeros_like(variable.value))
    remote.pull()
    pulled = [variable.numpy() for variable in (*whole.variables, *optimizer.variables)]
    assert any(not np.allclose(a, b) for a, b in zip(expected, pulled, strict=False))
    if name != "lamb":
        for a, b in zip(stepped, pulled, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ema": 0.9}, "--ema does not work with --strategy parameter_server: workers would"),
        ({"deterministic": True}, "--deterministic does not work"),
        ({"cache": "memory"}, "--cache does not work"),
        ({"data": "s3://bucket/set"}, "reads sets in directories only, not s3://bucket/set"),
        ({}, "TF_CONFIG is not set.*--local-workers 2 --parameter-servers 1"),
    ],
)
def test_what_parameter_servers_do_not_do_is_refused(options, changes, reason, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(UsageError, match=reason):
        train(options(strategy="parameter_server", **changes))


def test_parameter_servers_are_started_with_workers_alone(shardmill, write_set, tmp_path):
    directory = write_set(train=40)

    def refused(*arguments):
        done = shardmill("train", directory, "--run-dir", tmp_path / "run", *arguments)
        assert done.returncode == 2
        return done.stderr

    assert "--parameter-servers 1 needs workers" in refused("--parameter-servers", 1)
    both = ("--parameter-servers", 1, "--local-workers", 2)
    assert "--strategy mirrored does not work with" in refused(*both, "--strategy", "mirrored")


def test_any_part_of_any_epoch_is_a_data_set_of_its_own(write_set, options):
    write_set(train=40, validation=13)
    data = open_data(options(strategy="parameter_server"))
    stream = data.open_training(None)
    batches = iter(stream.dataset)
    epochs = [[next(batches) for _ in range(stream.steps_per_epoch)] for _ in range(2)]

    @tf.function
    def numbered(epoch, begin, end):
        iterator = iter(stream.numbered(epoch, begin, end))
        next(iterator)
        return next(iterator)

    for a, b in zip(
        numbered(*map(tf.constant, map(np.int64, (1, 2, 4)))), epochs[1][3], strict=True
    ):
        # A graph that travels resizes in float32, and OpenCV in whole numbers.
        np.testing.assert_allclose(a, b, atol=1)
    validation = data.validation
    whole = [labels for _, part in validation.dataset for labels in part.numpy()]
    last = list(validation.numbered(0, 1, 2))
    assert [len(labels) for _, labels in last] == [5]
    assert last[0][1].numpy().tolist() == whole[8:]
    with pytest.raises(UsageError, match="with cache='memory' is read through this process"):
        open_data(options(cache="memory")).open_training(None).numbered(0, 0, 1)
