"""A run that stopped, however it was stopped, ends as if it had not."""

import concurrent.futures
import dataclasses
import json
import os
import shutil
import signal

import hypothesis
import pytest
import tensorflow as tf
import tiny
from hypothesis import strategies as st
from outcomes import assert_same
from tiny import Stopped, stop_after

from cli.commands.train import where_it_resumes
from shard_format import InputError
from trainer import StopAsked, TrainingStopped, train
from trainer.checkpointing.checkpoint_files import newest
from trainer.checkpointing.checkpoints import Checkpoints, latest_progress
from trainer.checkpointing.progress import Progress
from trainer.checkpointing.termination import Termination, exit_on_sigterm
from trainer.loop import Totals
from trainer.run import train_on
from trainer.train_state import make_train_state


def terminate_at(phase, epoch, *numbers):
    """Sends signals to this process at the first step of a phase, or at the end of an epoch."""

    def on_event(event):
        if getattr(event, "phase", "end") == phase and getattr(event, "epoch", None) == epoch:
            for number in numbers or (signal.SIGTERM,):
                os.kill(os.getpid(), number)

    return on_event


@pytest.mark.parametrize(
    ("phase", "words", "place"),
    [
        ("train", "after 1 epoch and 1 of 4 steps of the next, which", (1, 1)),
        *(
            pytest.param(*each, marks=pytest.mark.proof)
            for each in [
                ("validation", "after 1 epoch and 4 of 4 steps of the next, which", (1, 4)),
                ("end", "after 2 epochs, which are checkpointed. The same command resumes", (2, 0)),
            ]
        ),
    ],
)
def test_sigterm_ends_a_run_at_a_checkpoint(options, tmp_path, phase, words, place):
    whole, cut = (
        options(model="tiny:with_norm", epochs=3, run_dir=tmp_path / name, checkpoint_minutes=0)
        for name in ("whole", "cut")
    )
    train_on(tiny.data(), whole)
    with pytest.raises(TrainingStopped, match=words) as stopped:
        train_on(tiny.data(), cut, terminate_at(phase, 2))
    assert stopped.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    progress = latest_progress(cut.run_dir / "checkpoints")
    assert (progress.epochs_done, progress.step) == place
    assert not (cut.run_dir / "model.keras").exists()

    other = dataclasses.replace(cut, batch_size=16)
    with pytest.raises(InputError, match="batch_size was 8, is 16"):
        train_on(tiny.data(batch_size=16), other)
    with pytest.raises(InputError, match="root_hash was '0000"):
        train_on(dataclasses.replace(tiny.data(), root_hash="1" * 64), cut)
    train_on(tiny.data(), dataclasses.replace(cut, checkpoint_minutes=5.0))
    assert_same(whole.run_dir, cut.run_dir)


@pytest.fixture
def default_sigint():
    """As programs begin; processes of pytest-xdist ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_run_at_a_checkpoint_and_twice_at_once(options, tmp_path, default_sigint):
    whole, cut = (
        options(model="tiny:with_norm", run_dir=tmp_path / name, checkpoint_minutes=0)
        for name in ("whole", "cut")
    )
    train_on(tiny.data(), whole)
    events = []

    def on_event(event):
        events.append(event)
        terminate_at("train", 1, signal.SIGINT)(event)

    assert where_it_resumes(cut.run_dir).startswith("no checkpoint was written yet")
    with pytest.raises(TrainingStopped, match="by Ctrl-C after 0 epochs and 1 of 4") as stopped:
        train_on(tiny.data(), cut, on_event)
    assert stopped.value.exit_code == 130
    assert StopAsked(signal.SIGINT) in events
    with pytest.raises(KeyboardInterrupt):
        train_on(tiny.data(), cut, terminate_at("train", 1, signal.SIGINT, signal.SIGINT))
    progress = latest_progress(cut.run_dir / "checkpoints")
    assert (progress.epochs_done, progress.step) == (0, 1), "the second one saves nothing"
    assert where_it_resumes(cut.run_dir).endswith("after 0 epochs and 1 step of the next")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train_on(tiny.data(), cut)
    assert_same(whole.run_dir, cut.run_dir)


def test_sigterm_ends_a_process_at_once_while_nothing_is_to_be_saved(monkeypatch):
    class Ended(BaseException):
        pass

    def end(code):
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    said, asked = [], []
    with exit_on_sigterm(lambda: said.append(1)):
        with Termination(asked.append) as termination:
            with pytest.raises(Ended, match="143"):
                os.kill(os.getpid(), signal.SIGTERM)
            assert (said, asked) == ([1], [])
            termination.begin()
            os.kill(os.getpid(), signal.SIGTERM)
            assert (said, asked) == ([1], [signal.SIGTERM])
        with pytest.raises(Ended, match="143"):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_program_that_handles_sigterm_keeps_doing_so(options):
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    try:
        result = train_on(tiny.data(), options(), terminate_at("train", 1))
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received
    assert len(result.history) == 2


def test_runs_outside_of_the_main_thread_leave_signals_alone(options):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(train_on, tiny.data(), options()).result().history) == 2


def test_a_checkpoint_within_an_epoch_holds_the_place_of_the_reader(write_set, options):
    write_set(train=70)
    given = options(checkpoint_minutes=1e-9)

    def stop(event):
        if getattr(event, "step", 0) >= 3:
            raise Stopped

    with pytest.raises(Stopped):
        train(given, stop)
    progress = latest_progress(given.run_dir / "checkpoints")
    assert progress.epochs_done == 0 and 1 <= progress.step < 3
    assert progress.totals.examples == 8 * progress.step
    root_hash = json.loads((given.data / "manifest.json").read_text())["root_hash"]
    assert progress.reader["root_hash"] == root_hash
    assert (progress.reader["epoch"], progress.reader["step"]) == (0, progress.step)
    assert len(json.dumps(progress.reader)) < 1000


@pytest.mark.parametrize(("minutes", "expected"), [(0.0, [4, 8]), (1e-9, [1, 4, 5, 8])])
def test_checkpoints_within_epochs_are_as_frequent_as_asked(
    options, monkeypatch, minutes, expected
):
    saved = []
    save = Checkpoints.save

    def noted(self, progress):
        saved.append(progress.epochs_done * 4 + progress.step)
        save(self, progress)
        self.wait()

    monkeypatch.setattr(Checkpoints, "save", noted)
    train_on(tiny.data(), options(checkpoint_minutes=minutes))
    assert saved == expected if not minutes else set(saved) >= set(expected)
    assert saved == sorted(saved)


finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**62)


@hypothesis.given(
    st.builds(Progress, counts, counts, st.builds(Totals, finite, counts, counts, counts, finite))
)
def test_a_progress_comes_back_to_the_bit(progress):
    assert Progress.from_json(progress.to_json()) == progress


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"totals": {}, "more": 1}', "half a fi"])
def test_what_is_no_progress_is_a_value_error(text):
    with pytest.raises(ValueError):
        Progress.from_json(text)


def test_a_checkpoint_of_version_0_1_0_goes_on_at_its_epoch(options, tmp_path):
    whole, cut = (
        options(model="tiny:with_norm", epochs=4, run_dir=tmp_path / name)
        for name in ("whole", "cut")
    )
    train_on(tiny.data(), whole)
    with pytest.raises(Stopped):
        train_on(tiny.data(), cut, stop_after(2))
    learner = make_train_state(cut.settled("image"), "float32", 4, tiny.data())
    model, optimizer = learner.model, learner.optimizer
    directory = cut.run_dir / "checkpoints"
    Checkpoints(directory, model, optimizer, 1).restore(newest(directory))
    shutil.rmtree(directory)
    checkpoint = tf.train.Checkpoint(  # as version 0.1.0 wrote them
        model=[variable.value for variable in model.variables],
        optimizer=[variable.value for variable in optimizer.variables],
        epochs_done=tf.Variable(2, dtype=tf.int64, trainable=False),
    )
    manager = tf.train.CheckpointManager(checkpoint, str(directory), max_to_keep=2)
    manager.save(checkpoint_number=1)
    manager.save(checkpoint_number=2)
    record = json.loads((cut.run_dir / "run.json").read_text())
    assert "checkpoint_minutes" not in record["identity"]

    places = []
    train_on(tiny.data(), cut, lambda e: places.append(getattr(e, "first_epoch", None)))
    assert places[0] == 3
    assert_same(whole.run_dir, cut.run_dir)
    assert (directory / "ckpt-4.index").exists()


def test_an_epoch_in_the_history_without_a_checkpoint_runs_again(options):
    given = options(epochs=2)
    with pytest.raises(Stopped):
        train_on(tiny.data(), given, stop_after(1))
    path = given.run_dir / "history.json"
    epoch = json.loads(path.read_text())[0]
    path.write_text(json.dumps([epoch, {**epoch, "epoch": 2, "loss": -1.0}]))
    result = train_on(tiny.data(), given)
    assert [e.epoch for e in result.history] == [1, 2]
    assert result.final.loss > 0


def test_a_checkpoint_holds_the_loss_scale(options, tmp_path):
    given = options()
    first, second = (
        make_train_state(given.settled("image"), "mixed_float16", 4, tiny.data()) for _ in range(2)
    )
    first.optimizer.dynamic_scale.assign(77.0)
    kept = Checkpoints(tmp_path / "c", first.model, first.optimizer, 1)
    kept.save(Progress(4))
    kept.wait()
    Checkpoints(tmp_path / "c", second.model, second.optimizer, 1).restore(1)
    assert second.loop.loss_scale == 77.0


def test_a_model_whose_code_changed_is_refused(options, monkeypatch):
    given = options(epochs=1)
    train_on(tiny.data(), given)
    monkeypatch.setattr(tiny, "dense", tiny.with_norm)
    with pytest.raises(InputError, match="If the code of the model has changed"):
        train_on(tiny.data(), given)


def test_a_checkpoint_without_its_history_is_refused(options):
    given = options(epochs=2)
    with pytest.raises(Stopped):
        train_on(tiny.data(), given, stop_after(1))
    (given.run_dir / "history.json").write_text("[]")
    with pytest.raises(InputError, match=r"has fewer epochs than the checkpoint \(1\)"):
        train_on(tiny.data(), given)
