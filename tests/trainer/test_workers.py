"""Runs of several processes: the same loss as of one, and none that waits for a lost one."""

import gc
import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from launched import LOST, Runs, children, finished

from shard_format import InputError, UsageError
from trainer import TrainOptions, WorkersLost, train
from trainer.checkpointing.checkpoints import latest_progress
from trainer.data import open_data
from trainer.workers import bootstrap, connectivity

TIMEOUT = 10  # seconds; a worker of a busy machine answers within it


@pytest.fixture
def runs(write_set):
    given = ("--model", "tiny:dense", "--epochs", 3, "--worker-timeout", TIMEOUT)
    made = Runs(write_set(train=251, validation=61), *given)
    yield made
    made.end()


def await_checkpoint(run, process, count=1):
    """Returns when the latest checkpoint has at least this number."""
    path, end = run / "checkpoints" / "checkpoint", time.monotonic() + 120
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        if path.exists():
            match = re.search(r'model_checkpoint_path: "ckpt-(\d+)"', path.read_text())
            if match and int(match[1]) >= count:
                return
        time.sleep(0.1)
    raise AssertionError(f"no checkpoint in {run}")


def history(run):
    return json.loads((run / "history.json").read_text())


def assert_same_losses(one, other):
    first, second = history(one), history(other)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        for name in ("loss", "val_loss", "accuracy", "val_accuracy"):
            assert b[name] == pytest.approx(a[name], abs=1e-5), name
    weights = [keras.models.load_model(run / "model.keras").get_weights() for run in (one, other)]
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def alone(runs, tmp_path, **changes):
    """The same run in this one process."""
    options = TrainOptions(
        **{
            "data": runs.data,
            "run_dir": tmp_path / "alone",
            "model": "tiny:dense",
            "image_size": 8,
            "batch_size": 24,
            "epochs": 3,
            "precision": "float32",
            **changes,
        }
    )
    train(options)
    return options.run_dir


def test_two_workers_learn_what_one_learns_and_the_chief_alone_writes(runs, tmp_path):
    run = tmp_path / "two"
    finished(runs.start(run, "--local-workers", 2, "--epochs", 1))
    assert_same_losses(alone(runs, tmp_path, epochs=1), run)
    assert [path.name for path in (run / "workers").iterdir()] == ["worker-1.log"]
    assert len(list((run / "tensorboard" / "train").iterdir())) == 1


@pytest.mark.proof
def test_two_workers_of_which_one_is_killed_learn_what_one_learns(runs, tmp_path):
    """All begin again at the checkpoint.

    The model is the default one, but for dropout; the optimizer one that does not divide gradients
    by their size, as AdamW does, under which rounding grows to 1 % of a loss in a few epochs.
    """
    run = tmp_path / "two"
    given = {
        "model": "tiny:small_cnn_without_dropout", "optimizer": "sgd", "learning_rate": 0.05,
        "sync_batch_norm": True,
    }  # fmt: skip
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in list(given.items())[:3]]
    several = ("--local-workers", 2, "--restarts", 1, "--checkpoint-minutes", 1e-5)
    process = runs.start(run, *several, *flags, "--sync-batch-norm")
    await_checkpoint(run, process)
    os.kill(children(process.pid)["worker-1"], signal.SIGKILL)
    out, err = finished(process)
    assert "worker 0 of 2, 2 devices; gradients are summed by RING" in err
    assert re.search(r"error: Worker 1 \(127\.0\.0\.1:\d+\) ended\. See its log", err)
    assert "all 2 workers start again (0 restarts left)" in err
    assert "batch normalization takes the statistics of the whole batch" in err
    assert "validation" in out
    assert_same_losses(alone(runs, tmp_path, **given), run)

    assert {path.name for path in run.iterdir()} == {
        "run.json", "set-manifest.json", "history.json", "model.keras", "best.keras",
        "checkpoints", "tensorboard", "workers", "learning_curve.png", "confusion_matrix.csv",
        "confusion_matrix.png", "sample_predictions.png",
    }  # fmt: skip
    assert [path.name for path in (run / "workers").iterdir()] == ["worker-1.log"]
    assert "validation" in (run / "workers" / "worker-1.log").read_text()
    events = list((run / "tensorboard" / "train").iterdir())
    assert len(events) == 2  # of the chief of each attempt


@pytest.mark.proof
def test_a_worker_that_hangs_ends_the_run_within_the_limit(runs, tmp_path):
    run = tmp_path / "stopped"
    process = runs.start(run, "--local-workers", 2, "--epochs", 100000)
    await_checkpoint(run, process, 2)
    stopped = time.monotonic()
    os.kill(children(process.pid)["worker-0"], signal.SIGSTOP)
    _, err = finished(process, LOST)
    # About three times the limit on an idle machine: silence, the time for all to notice, the
    # launcher's for a worker that hangs.
    assert time.monotonic() - stopped < 12 * TIMEOUT
    assert "worker 0 hangs; it is killed" in err
    log = (run / "workers" / "worker-1.log").read_text()
    assert re.search(r"error: Worker 0 \(127\.0\.0\.1:\d+\) has not answered for \d+ s", log)
    assert latest_progress(run / "checkpoints").epochs_done >= 2


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_every_other_worker_names_the_one_that_is_lost(runs, tmp_path, victim, number):
    run = tmp_path / "run"
    process = runs.start(run, "--local-workers", 3, "--epochs", 100000)
    await_checkpoint(run, process, 2)
    os.kill(children(process.pid)[f"worker-{victim}"], number)
    _, err = finished(process, LOST)
    said = {0: err} | {i: (run / "workers" / f"worker-{i}.log").read_text() for i in (1, 2)}
    how = "ended" if number == signal.SIGKILL else r"has not answered for \d+ s"
    for index in {0, 1, 2} - {victim}:
        pattern = rf"error: Worker {victim} \(127\.0\.0\.1:\d+\) {how}\. See its log"
        assert re.search(pattern, said[index]), said[index][-2000:]


@pytest.mark.proof
def test_a_worker_that_is_lost_while_models_are_built_is_named(runs, tmp_path):
    run = tmp_path / "run"
    arguments = ("--local-workers", 2, "--model", "tiny:ends_on_the_chief")
    finished(runs.start(run, *arguments), LOST)
    log = (run / "workers" / "worker-1.log").read_text()
    assert re.search(r"error: Worker 0 \(127\.0\.0\.1:\d+\) ended\. See its log", log), log


@pytest.mark.proof
def test_a_run_continues_with_other_numbers_of_workers(runs, tmp_path):
    """Within one epoch; every record once, or the losses would differ."""
    run = tmp_path / "elastic"
    for count in (4, 2, 1, 4):
        process = runs.start(run, "--local-workers", count, "--checkpoint-minutes", 1e-5)
        place = run / "checkpoints" / "checkpoint"
        before = place.read_text() if place.exists() else ""
        while not place.exists() or place.read_text() == before:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        assert process.returncode in (0, 143), (out, err)
    finished(runs.start(run, "--local-workers", 2, "--checkpoint-minutes", 1e-5))
    assert_same_losses(alone(runs, tmp_path), run)


def ports(count):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    numbers = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return numbers


@pytest.mark.proof
def test_workers_that_are_restarted_one_by_one_find_each_other_again(runs, tmp_path):
    """As pods are; the run directory is seen by the chief alone."""
    addresses = [f"127.0.0.1:{port}" for port in ports(2)]

    def start(index):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        own = tmp_path / str(index) / "run"
        return runs.start(own, "--strategy", "multi_worker", "--epochs", 20, TF_CONFIG=config)

    processes = [start(0), start(1)]
    await_checkpoint(tmp_path / "0" / "run", processes[0], 2)
    processes[1].kill()
    codes = [[], []]
    end = time.monotonic() + 200
    while [each[-1:] for each in codes] != [[0], [0]]:
        assert time.monotonic() < end, codes
        for index, process in enumerate(processes):
            if process.poll() is not None and codes[index][-1:] != [0]:
                codes[index].append(process.returncode)
                if process.returncode:
                    processes[index] = start(index)
        time.sleep(0.1)
    assert -signal.SIGKILL in codes[1]
    assert codes[0][0] == LOST
    assert_same_losses(alone(runs, tmp_path, epochs=20), tmp_path / "0" / "run")
    assert not (tmp_path / "1").exists()


def bytes_read():
    """By this process, in calls of the system, once all that is read ahead has been read."""
    read = [0]
    while len(read) < 4 or read[-1] - read[-4] > 4096:
        time.sleep(0.1)
        text = Path("/proc/self/io").read_text()
        read.append(int(re.search(r"rchar: (\d+)", text)[1]))
    return read[-1]


@pytest.mark.proof  # the tests of the reader have one of its own
@pytest.mark.parametrize("workers", [2, 4])
def test_a_worker_reads_its_part_of_the_set_and_nothing_else(write_set, options, workers):
    directory = write_set(train=4000)
    size = sum(path.stat().st_size for path in directory.glob("*-train.tfrecord-*"))
    gc.collect()  # a data set of an earlier test would read, too
    for index in range(workers):
        stream = open_data(options(batch_size=40), (index, workers)).open_training(None)
        batches, read = iter(stream.dataset), []
        for epochs in (2, 4):  # Files are opened in the first two: those do not count.
            for _ in range(epochs * stream.steps_per_epoch):
                images, _ = next(batches)
                assert len(images) == 40 // workers
            read.append(bytes_read())
        part = (read[1] - read[0]) / 4 / size
        assert 0.95 / workers < part < 1.05 / workers


def test_validation_on_several_workers_counts_every_record_once(write_set, options):
    write_set(train=40, validation=13)
    labels = []
    for index in range(4):
        for _, classes, weights in open_data(options(), (index, 4)).validation.dataset:
            labels += classes.numpy()[weights.numpy() > 0].tolist()
    whole = [label for _, part in open_data(options()).validation.dataset for label in part.numpy()]
    assert sorted(labels) == sorted(whole)


def test_a_run_says_how_many_workers_can_share_its_records(write_set, options):
    write_set(train=40)
    data = open_data(options(batch_size=12), (0, 3))
    stream = data.open_training(None)
    assert stream.info.streams == 66
    state = stream.state(1)
    assert open_data(options(batch_size=12), (1, 2)).open_training(state).first_step == 1
    assert open_data(options(batch_size=12)).open_training(state).first_step == 1
    with pytest.raises(UsageError, match=r"began with 66 streams .*, which 4 workers cannot"):
        open_data(options(batch_size=12), (0, 4)).open_training(state)
    with pytest.raises(UsageError, match="--batch-size 8 is not a multiple of the 3 workers"):
        open_data(options(), (0, 3))


@pytest.fixture
def two(monkeypatch):
    """This process as worker 0 of two on this machine; gives their ports."""
    first, second = ports(2)
    cluster = {"worker": [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    monkeypatch.setattr(connectivity, "_LOOK_SECONDS", 0.05)
    return first, second


def test_a_worker_that_does_not_start_is_named(two, options):
    events = []
    given = options(strategy="multi_worker", worker_start_timeout=1.0)
    with pytest.raises(WorkersLost, match=rf"Worker 1 \(127.0.0.1:{two[1]}\) did not start in 1 s"):
        train(given, events.append)
    assert [event.missing for event in events] == [(f"worker 1 (127.0.0.1:{two[1]})",)]


def test_a_port_that_is_taken_is_named(two, options):
    with socket.create_server(("", two[0])):
        with pytest.raises(UsageError, match=f"Cannot listen on port {two[0]} of 127.0.0.1"):
            train(options(strategy="multi_worker"))


def test_local_workers_refuse_what_they_cannot_be(shardmill, write_set, tmp_path, monkeypatch):
    from trainer.launching.gpus import divided_gpus

    directory = write_set(train=40)

    def refused(*arguments):
        run = tmp_path / "run"
        done = shardmill("train", directory, "--run-dir", run, "--local-workers", 2, *arguments)
        assert done.returncode in (2, 3)
        assert not (run / "workers").exists()
        return done.stderr

    assert "--strategy mirrored does not work with" in refused("--strategy", "mirrored")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert "2 local workers, and 1 GPU: each needs one" in refused()
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "TF_CONFIG is set, and --local-workers would" in refused()
    monkeypatch.delenv("TF_CONFIG")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").touch()
    assert "holds other files and no run.json" in refused()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert divided_gpus(2) == [["4", "6"], ["5"]]


def test_other_strategies_do_not_look_at_tf_config(monkeypatch, options):
    monkeypatch.setenv("TF_CONFIG", "not even JSON")
    with bootstrap.joined(options(), lambda event: None) as team:
        assert (team.index, team.size, team.is_chief) == (0, 1, True)
        assert team.from_chief(lambda: {"a": 1}) == {"a": 1}
        with pytest.raises(InputError):
            team.from_chief(lambda: (_ for _ in ()).throw(InputError("no")))
        variable = keras.Variable(tf.constant([1.5]))
        team.take_from_chief([variable])
        assert float(variable.value[0]) == 1.5
