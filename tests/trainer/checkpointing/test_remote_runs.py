"""Runs in object stores: whatever ends them, they go on from there on any machine."""

import json
import os
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from outcomes import assert_same
from tiny import Stopped, stop_after

from foundation import storage
from foundation.storage import Url
from shard_format import InputError, UsageError
from tests.fixtures.generations import Killed
from tests.fixtures.memory_storage import die_after
from tests.fixtures.proofs import proof
from trainer import Notice, RunStarted, TrainingStopped, TrainOptions, train
from trainer.checkpointing import remote_run
from trainer.checkpointing.checkpoint_files import newest

URL = "memory://bucket/run"
LEASES = f"{URL}/lock/"


@pytest.fixture
def given(write_set, options):
    """Options of a run at the URL; a call changes some."""
    write_set(train=40, validation=13)  # 5 steps an epoch
    common = {"model": "tiny:with_norm", "epochs": 3, "augment": "none", "sample_predictions": 0}

    def make(**changes):
        return options(**{"run_dir": URL, **common, **changes})

    return make


@pytest.fixture
def whole(given, tmp_path):
    """The directory of the same run on a disk, which nothing stopped."""
    train(given(run_dir=tmp_path / "whole"))
    return tmp_path / "whole"


def fetched(memory, folder, url=URL):
    """A copy of a run, without its lease."""
    for name, _ in memory.list_tree(Url(url)):
        if not name.startswith("lock/"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(storage.read_bytes(Url(f"{url}/{name}")))
    return folder


def names(memory, begin=""):
    return sorted(url[len(URL) + 1 :] for url in memory.objects if url.startswith(f"{URL}/{begin}"))


def place(events):
    [started] = [event for event in events if isinstance(event, RunStarted)]
    return started.first_epoch, started.first_step


def test_a_run_at_a_url_is_that_of_a_disk_and_goes_on_elsewhere(memory, given, whole, tmp_path):
    with pytest.raises(Stopped):
        train(given(), stop_after(1))
    assert names(memory, "lock") == []
    assert not list(Path(tempfile.gettempdir()).glob("shardmill-runs-*/*/run"))
    events = []
    result = train(given(), events.append)
    assert place(events) == (2, 0)
    copy = fetched(memory, tmp_path / "copy")
    assert_same(whole, copy)
    files = {path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file()}
    same = {name for name in files if not name.startswith("tensorboard/")}
    assert {name for name in names(memory) if not name.startswith("tensorboard/")} == same
    assert len(names(memory, "tensorboard/train")) == 2  # of the first process too
    assert str(result.run_dir) == URL and str(result.model_path) == f"{URL}/model.keras"
    assert str(events[-1].model_path) == f"{URL}/model.keras"
    assert json.loads((copy / "run.json").read_text())["options"]["run_dir"] == URL
    before = dict(memory.objects)
    assert train(given()).history == result.history
    assert memory.objects.keys() == before.keys()
    assert all(data == before[url][0] for url, (data, _) in memory.objects.items())
    with pytest.raises(InputError, match=rf"{URL} holds a run with other options or data"):
        train(given(batch_size=4))


def test_sigterm_leaves_its_checkpoint_at_the_url(memory, given, whole, tmp_path):
    def terminate(event):
        if getattr(event, "phase", "") == "train" and event.epoch == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingStopped, match="1 of 5 steps of the next"):
        train(given(checkpoint_minutes=0), terminate)
    events = []
    train(given(checkpoint_minutes=0), events.append)
    assert place(events) == (2, 1)
    assert_same(whole, fetched(memory, tmp_path / "copy"))


def test_both_phases_of_a_run_go_on(memory, given, tmp_path):
    common = {"model": "small_cnn", "image_size": 32, "epochs": 1, "head_epochs": 2}
    train(given(run_dir=tmp_path / "whole", **common))
    for epoch, url in ((1, f"{URL}/head"), (2, f"{URL}/head"), (1, URL)):
        stop, done = stop_after(epoch), []

        def stop_in_phase(event, url=url, stop=stop, done=done):
            done.append(isinstance(event, RunStarted) and not event.head_only)
            if any(done) == (url == URL):
                stop(event)

        with pytest.raises(Stopped):
            train(given(**common), stop_in_phase)
        assert newest(fetched(memory, tmp_path / f"{epoch}{len(url)}", url) / "checkpoints")
    train(given(**common))
    for phase in ("", "head"):
        url = f"{URL}/{phase}".rstrip("/")
        assert_same(tmp_path / "whole" / phase, fetched(memory, tmp_path / f"copy{phase}", url))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("step", [19, pytest.param(1, marks=proof)])
def test_a_run_killed_at_any_operation_resumes(memory, given, whole, tmp_path, step):
    """At every `step`-th upload or deletion; it goes on on another machine, with equal weights."""
    places, operations, ended = set(), 0, False
    while not ended:
        memory.objects.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("foundation.storage.lease.RENEW_SECONDS", 1000.0)
            die_after(operations, memory, patch)
            try:
                train(given())
                ended = True
            except Killed:
                pass
        for name in names(memory, "lock"):  # as if it was stale
            del memory.objects[f"{URL}/{name}"]
        events = []
        train(given(), events.append)
        places.add(place(events))
        assert not [event.text for event in events if isinstance(event, Notice)]
        assert_same(whole, fetched(memory, tmp_path / str(operations)))
        operations += step
    assert {(1, 0), (2, 0)} <= places and (step > 1 or len(places) == 4)


def test_a_newest_checkpoint_that_is_not_whole_is_passed_over(memory, given, whole, tmp_path):
    with pytest.raises(Stopped):
        train(given(), stop_after(2))
    values = f"{URL}/checkpoints/ckpt-2.data-00000-of-00001"
    begun = dict(memory.objects)

    def resumed_at():
        events = []
        train(given(), events.append)
        assert_same(whole, fetched(memory, tmp_path / str(len(list(tmp_path.iterdir())))))
        [text] = [event.text for event in events if isinstance(event, Notice)] or [""]
        return place(events), text

    memory.objects[values] = (begun[values][0][:-1], 0)  # by hand: an upload is whole or nothing
    begin, text = resumed_at()
    assert begin == (2, 0) and text.startswith(f"{values} has ")
    assert text.endswith("; the run resumes at the checkpoint ckpt-1")
    assert values not in memory.objects
    memory.objects = {**begun, f"{URL}/checkpoints/ckpt-3.index": (b"half", 0)}
    assert resumed_at() == ((3, 0), "")
    assert "checkpoints/ckpt-3.index" not in names(memory)


def test_a_second_run_at_a_url_is_refused(memory, given, monkeypatch):
    monkeypatch.setattr("foundation.storage.lease.RENEW_SECONDS", 0.05)
    refused = []

    def start_another(event):
        if isinstance(event, RunStarted):
            with pytest.raises(InputError, match=r"Another run \(process \d+ on .*\) is writing"):
                train(given())
            refused.append(event)

    train(given(epochs=1), start_another)
    assert refused and names(memory, "lock") == []


def test_a_run_that_has_lost_its_lease_ends_and_changes_nothing(memory, given):
    other = (json.dumps({"process": 7, "host": "elsewhere"}).encode(), 0)

    def lose(event):
        if getattr(event, "epoch", None) == 2 and getattr(event, "phase", "") == "train":
            memory.objects[f"{LEASES}2.lease"] = other
            lose.before = dict(memory.objects)

    with pytest.raises(InputError, match=rf"This run has lost {URL} to another run \(process 7 on"):
        train(given(), lose)
    kept = {url: value for url, value in memory.objects.items() if not url.startswith(LEASES)}
    assert kept == {url: value for url, value in lose.before.items() if url in kept}


def test_a_folder_of_something_else_is_left_alone(memory, given):
    memory.objects[f"{URL}/photos/1.jpg"] = (b"", 0)
    before = dict(memory.objects)
    with pytest.raises(InputError, match=rf"{URL} holds other files and no run.json"):
        train(given())
    assert memory.objects == before


@pytest.mark.parametrize("url", ["hf://datasets/owner/name/run", "https://host/run"])
def test_a_run_cannot_be_where_nothing_can_be_written(url):
    with pytest.raises(UsageError, match=rf"--run-dir {url} cannot be written"):
        TrainOptions(data="set", run_dir=url)


def test_an_upload_that_fails_ends_the_run_with_its_place(memory, given, monkeypatch):
    create = memory.create

    def full(place, **options):
        if place.name == "ckpt-2.index":
            raise OSError(5, "503 Service Unavailable", str(place))
        return create(place, **options)

    monkeypatch.setattr(memory, "create", full)
    with pytest.raises(InputError, match=rf"503 Service Unavailable: {URL}/checkpoints/ckpt-2.ind"):
        train(given())
    monkeypatch.undo()


def test_what_is_sent_after_the_end_deletes_nothing(memory, tmp_path):
    """A second Ctrl-C ends a run while its checkpoint is at work in another thread."""
    copy = remote_run.RunCopy(Url(URL), tmp_path / "system" / "run", lambda event: None)
    with ExitStack() as stack:
        copy.begin(stack)
        copy.folder.mkdir()
        (copy.folder / "run.json").write_text("{}")
        copy.send()
    copy.send()
    assert names(memory) == ["run.json"]
