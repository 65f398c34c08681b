"""What can be seen of a run while it trains: waiting for input, traces, metrics."""

import contextlib
import socket
import time
import urllib.request

import keras
import pytest
import tensorflow as tf
import tiny
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from shard_format import UsageError
from trainer import EpochDone, MetricsServed, StepsDone
from trainer.input_wait import waited_between
from trainer.loop import Loop, StepOptions, Totals
from trainer.models.build import build_model
from trainer.monitoring.metrics import Metrics
from trainer.monitoring.profiling import Profile
from trainer.run import train_on
from trainer.strategies import STRATEGIES

SECONDS = 0.04


def make_loop(**options):
    model = build_model("tiny:dense", {}, (8, 8, 3), tiny.NUM_CLASSES)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    return Loop(STRATEGIES["default"](), model, optimizer, StepOptions(8, **options))


def test_steps_that_wait_for_input_say_how_long():
    """At least the time that the input takes, however busy the machine is."""

    def slow(images, labels):
        def wait(value):
            time.sleep(SECONDS)
            return value

        return images, tf.ensure_shape(tf.py_function(wait, [labels], tf.int64), [8])

    dataset = tiny.endless(32, 8, 8).dataset.map(slow)
    totals = make_loop().train(iter(dataset), 12, lambda *_: None)
    assert totals.seconds >= totals.waited >= 12 * SECONDS * 0.95
    # Of steps whose input comes at once, the sum is less than of a single batch that comes late.
    batch = next(iter(tiny.endless(32, 8, 8).dataset))
    quick = tf.data.Dataset.from_tensors(batch).repeat()
    ready = make_loop().train(iter(quick), 12, lambda *_: None)
    assert 0 < ready.waited < totals.waited / 2
    assert ready.input_wait < 0.5


@pytest.mark.parametrize(
    ("asked", "arrived", "finished", "waited"),
    [(5.0, 7.0, 0.0, 2.0), (5.0, 7.0, 6.5, 0.5), (5.0, 7.0, 9.0, 0.0)],
)
def test_input_that_comes_while_the_device_is_busy_is_not_waited_for(
    asked, arrived, finished, waited
):
    times = (tf.constant(value, tf.float64) for value in (asked, arrived, finished))
    assert float(waited_between(*times)) == waited


def test_a_share_is_of_the_seconds_of_steps():
    assert Totals(seconds=2.0, waited=0.5).input_wait == 0.25
    assert Totals().input_wait == 0.0


def test_calls_end_where_a_trace_begins_and_ends(tmp_path):
    profile = Profile("5:7", 100, None)
    assert [profile.next_stop(step) for step in (0, 4, 5, 6)] == [5, 5, 7, 7]
    assert profile.next_stop(7) > 10**9
    loop = make_loop()
    loop.next_stop = profile.next_stop
    seen = []
    loop.train(iter(tiny.endless(32, 8, 8).dataset), 40, lambda step, _: seen.append(step))
    assert {5, 7} <= set(seen) and len(seen) < 40
    with pytest.raises(UsageError, match="--profile 100:101 begins after the run, which has 100"):
        Profile("100:101", 100, tmp_path)


def test_a_run_writes_a_trace_of_the_steps_that_were_asked_for(options, monkeypatch):
    given, steps = options(epochs=3, profile="3:6"), []
    monkeypatch.setattr("trainer.loop.CALL_SECONDS", 10.0)
    train_on(tiny.data(), given, steps.append)
    done = [(e.epoch - 1) * 4 + e.step for e in steps if isinstance(e, StepsDone)]
    assert {3, 6} <= set(done)
    (path,) = (given.run_dir / "tensorboard").glob("plugins/profile/*/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    names = [
        plane.event_metadata[event.metadata_id].name
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    ]
    # An operation that each step has once: the steps 3, 4 and 5.
    assert sum("SparseSoftmaxCrossEntropyWithLogits" in name for name in names) >= 3
    assert sum("CheckpointV2" in name or "SaveV2" in name for name in names) <= 4


def read(url):
    text = urllib.request.urlopen(url, timeout=20).read().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_run_serves_its_metrics(options):
    pages, urls = [], []

    def look(event):
        if isinstance(event, MetricsServed):
            urls.append(event.url)
        elif isinstance(event, EpochDone):
            pages.append((event, read(urls[0])))

    given = options(epochs=2, metrics_port=0, precision="mixed_float16")
    train_on(tiny.data(), given, look)
    epoch, values = pages[-1]
    assert urls[0].startswith("http://127.0.0.1:")
    assert values['shardmill_loss{phase="train"}'] == pytest.approx(epoch.loss)
    assert values['shardmill_loss{phase="validation"}'] == pytest.approx(epoch.val_loss)
    assert values['shardmill_accuracy{phase="train"}'] == pytest.approx(epoch.accuracy)
    assert (values["shardmill_epoch"], values["shardmill_step"]) == (2, 8)
    assert values["shardmill_loss_scale"] == 2.0**15
    assert values["shardmill_examples_per_second"] > 0
    assert 0 <= values["shardmill_input_wait_ratio"] <= 1
    assert 0 <= values["shardmill_checkpoint_age_seconds"] < 100
    with pytest.raises(OSError):
        read(urls[0])


def test_a_port_that_is_taken_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UsageError, match=rf"metrics at 127.0.0.1:{port}: 'Address already"):
            Metrics("127.0.0.1", port, 8, tmp_path)
    with pytest.raises(UsageError, match=r"metrics at no\.such\.host\.invalid:0: "):
        Metrics("no.such.host.invalid", 0, 8, tmp_path)


def test_rates_are_those_of_the_last_steps(tmp_path):
    with contextlib.closing(Metrics("127.0.0.1", 0, 8, tmp_path)) as metrics:
        metrics.update(1, "train", 10, 0, Totals(seconds=100.0, waited=90.0), None)  # traces
        metrics.update(1, "train", 30, 0, Totals(seconds=102.0, waited=90.5), None)
        values = read(metrics.url)
        assert values["shardmill_examples_per_second"] == 80.0
        assert values["shardmill_input_wait_ratio"] == 0.25
        assert "shardmill_loss_scale" not in values
        metrics.update(2, "train", 4, 40, Totals(seconds=1.0), None)
        values = read(metrics.url)
        assert (values["shardmill_step"], values["shardmill_examples_per_second"]) == (44.0, 32.0)
