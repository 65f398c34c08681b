"""Files of a run that are not as they were written, or that cannot be written."""

import dataclasses
import json
import resource
import signal

import pytest
import tiny
from tiny import Stopped, stop_after

from shard_format import InputError, UsageError
from trainer.run import train_on


@pytest.fixture
def begun(options):
    """The options of a run of two epochs that stopped after the first."""
    given = options(epochs=2)
    with pytest.raises(Stopped):
        train_on(tiny.data(), given, stop_after(1))
    return given


@pytest.mark.parametrize("name", ["lr[0.1]", "run*", "run?", "a\\b"])
def test_a_run_whose_checkpoints_could_not_be_found_again_does_not_begin(options, tmp_path, name):
    """TensorFlow takes the path for a pattern: it would train for days, and not go on."""
    with pytest.raises(UsageError, match=r"The path .* has one of .*Pass another --run-dir"):
        train_on(tiny.data(), options(run_dir=tmp_path / name))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff"])
def test_a_run_does_not_begin_again_where_its_latest_checkpoint_is_not_named(begun, text):
    """TensorFlow only says that it ignores the file; all that was trained would be replaced."""
    path = begun.run_dir / "checkpoints" / "checkpoint"
    path.write_bytes(text)
    with pytest.raises(
        InputError, match=r"cannot read .*checkpoints/checkpoint, which names the latest"
    ):
        train_on(tiny.data(), begun)
    path.write_text('model_checkpoint_path: "ckpt-1"')  # as the message says
    events = []
    train_on(tiny.data(), begun, events.append)
    assert events[0].first_epoch == 2


@pytest.mark.parametrize("epochs", [[1], [{}], [{"epoch": 1, "more": 2}]])
def test_a_history_of_other_fields_is_refused(begun, epochs):
    (begun.run_dir / "history.json").write_text(json.dumps(epochs))
    with pytest.raises(
        InputError, match=r"history.* does not hold the epochs that this version writes: "
    ):
        train_on(tiny.data(), begun)


def test_a_model_and_a_checkpoint_that_find_no_room_are_reported(begun):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # Room for history.json and the events, not for the weights.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        with pytest.raises(
            InputError, match=r"Cannot write the model to .*/best.keras: .* Free some"
        ):
            train_on(tiny.data(), begun)
        unmeasured = dataclasses.replace(tiny.data(), validation=None)
        with pytest.raises(
            InputError, match=r"Cannot write a checkpoint to .*/checkpoints: .* Free some"
        ):
            train_on(unmeasured, begun)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert len(train_on(tiny.data(), begun).history) == 2
