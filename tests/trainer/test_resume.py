import json
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from shard_format import InputError
from trainer.checkpoints import Checkpoints
from trainer.learner import make_learner
from trainer.run import train_on


def test_a_killed_run_goes_on_after_its_last_epoch(run_program, tmp_path):
    killed = run_program("killed_run.py", tmp_path / "run", 1)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "run" / "model.keras").exists()
    before = json.loads((tmp_path / "run" / "history.json").read_text())

    continued = run_program("killed_run.py", tmp_path / "run")
    assert continued.returncode == 0, continued.stderr[-3000:]
    assert continued.stdout.splitlines() == ["first epoch 2"]
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [epoch["epoch"] for epoch in history] == [1, 2, 3]
    assert history[0] == before[0]
    assert (tmp_path / "run" / "model.keras").exists()


class Stopped(Exception):
    pass


def stop_after(epoch):
    def on_event(event):
        if getattr(event, "epoch", None) == epoch and hasattr(event, "val_loss"):
            raise Stopped

    return on_event


def test_a_continued_run_ends_with_the_weights_of_one_that_never_stopped(options, tmp_path):
    # Every epoch of this stream is the same, so only the state of the trainer can differ: weights,
    # moments of the optimizer, its step (hence the learning rate), BatchNorm and dropout seeds.
    data = tiny.data()
    same = type(data)(
        data.root_hash, data.class_names, lambda done: data.open_training(0), data.validation
    )
    whole, cut = (
        options(model="tiny:with_norm", epochs=3, run_dir=tmp_path / name)
        for name in ("whole", "cut")
    )
    whole = train_on(same, whole)
    with pytest.raises(Stopped):
        train_on(same, cut, stop_after(2))
    cut = train_on(same, cut)
    weights = [keras.models.load_model(r.model_path).get_weights() for r in (whole, cut)]
    assert all(map(np.array_equal, *weights))
    assert [e.loss for e in cut.history] == [e.loss for e in whole.history]


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
    first, second = (make_learner(given.settled("image"), "mixed_float16", 4, 3) for _ in range(2))
    first.optimizer.dynamic_scale.assign(77.0)
    Checkpoints(tmp_path / "c", first.model, first.optimizer, 1).save(4)
    Checkpoints(tmp_path / "c", second.model, second.optimizer, 1).restore()
    assert second.loop.loss_scale == 77.0


def test_a_damaged_checkpoint_is_named(options):
    given = options(epochs=1)
    train_on(tiny.data(), given)
    latest = tf.train.latest_checkpoint(str(given.run_dir / "checkpoints"))
    with open(f"{latest}.index", "wb") as file:
        file.write(b"not an index")
    with pytest.raises(InputError, match=r"got \w+ in .*ckpt-1"):
        train_on(tiny.data(), given)


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
    with pytest.raises(InputError, match=r"every epoch of the checkpoint \(1\), got fewer"):
        train_on(tiny.data(), given)
