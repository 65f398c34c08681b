"""Predictions are those of records that a run was not trained on, in the order of the index."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny

from beam_jobs.audit.auditing import audit
from beam_jobs.audit.predictions import Predictions
from inference.evaluation.evaluating import evaluate
from inference.evaluation.predictions import _forgotten, predict_records
from shard_format import UsageError, load_manifest, open_index
from trainer import train


@pytest.fixture
def run(write_set, options):
    write_set(train=40, validation=13, test=21)
    given = options(epochs=3, learning_rate=0.02, augment="none")
    train(given)
    return given


def _labels(root, split):
    return open_index(root / load_manifest(root).index_file(split))["label"].to_numpy()


def test_splits_that_were_not_trained_on(run, tmp_path):
    label, splits, forgotten = predict_records([run.run_dir], run.data, tmp_path)
    assert label == "label" and list(splits) == ["validation", "test"]
    assert not forgotten  # two checkpoints are kept
    for split, values in splits.items():
        truth = _labels(run.data, split)
        assert values.shape == (len(truth), len(tiny.NAMES))
        assert np.allclose(values.sum(axis=1), 1, atol=1e-5)
        scored = evaluate(run.run_dir, split=split)
        assert (values.argmax(axis=1) == truth).mean() == pytest.approx(scored.accuracy)
        losses = -np.log(values[np.arange(len(truth)), truth])
        assert losses.mean() == pytest.approx(scored.loss, rel=1e-4)


def test_a_run_for_each_half_judges_all(run, options, tmp_path):
    other = options(run_dir=tmp_path / "other", train_split="test", validation_split="none")
    train(other)
    folder = tmp_path / "both"
    folder.mkdir()
    _, splits, _ = predict_records([run.run_dir, other.run_dir], run.data, folder)
    assert set(splits) == {"train", "validation", "test"}


def test_a_damaged_record_has_no_prediction_and_moves_no_other(run, tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    _, whole, _ = predict_records([run.run_dir], run.data, tmp_path / "a")
    manifest = load_manifest(run.data)
    row = open_index(run.data / manifest.index_file("test")).slice(5, 1).to_pylist()[0]
    shard = run.data / manifest.splits["test"].shards[0].file
    data = bytearray(shard.read_bytes())
    data[row["offset"] + row["length"] // 2] ^= 1
    shard.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="damaged"):
        _, splits, _ = predict_records([run.run_dir], run.data, tmp_path / "b")
    assert np.isnan(splits["test"][5]).all()
    others = np.arange(21) != 5
    assert np.allclose(splits["test"][others], whole["test"][others], atol=1e-6)
    result = audit(run.data, {"hardest": 1.0}, Predictions("label", splits))
    judged = result.findings["hardest"]
    assert len(judged) == 13 + 21 - 1 and result.judged == 34
    assert (np.diff(judged["value"].to_numpy()) >= 0).all()
    assert result.findings["damaged"]["split"].to_pylist() == ["test"]


def test_forgetting_events():
    """Rows: forgotten twice, never right, always right, unreadable, learned late."""
    rights = np.array(
        [[1, 0, 1, -1, 0], [0, 0, 1, -1, 0], [1, 0, 1, -1, 0], [0, 0, 1, -1, 1], [1, 0, 1, -1, 1]]
    )
    taken, shown = [], []

    def batches():
        padded = np.append(rights[taken[-1]], -1)
        yield from (padded[:2], padded[2:4], padded[4:])

    events = _forgotten(batches, taken.append, range(5), 5, lambda *numbers: shown.append(numbers))
    assert events.tolist() == [2, 5, 0, -1, 0]
    assert taken == list(range(5)) and shown == sorted(shown) and shown[-1] == (25, 25)


@pytest.mark.proof  # five runs
def test_what_a_run_forgot_is_counted_over_its_epochs(write_set, options, tmp_path):
    """By the weights of each epoch, as a run of so many epochs would have them."""
    write_set(train=40, validation=13)
    given = options(
        epochs=4, learning_rate=3.0, optimizer="sgd", schedule="constant", warmup_epochs=0,
        augment="none", keep_checkpoints=9, checkpoint_minutes=0,
    )  # fmt: skip
    train(given)
    rights = []

    for epochs in range(1, 5):
        part = tmp_path / f"part-{epochs}"

        run = dataclasses.replace(given, run_dir=part, keep_checkpoints=1, epochs=epochs)
        train(run)
        folder = tmp_path / f"predictions-{epochs}"
        folder.mkdir()
        other = tmp_path / f"as-if-{epochs}"
        shutil.copytree(part, other)
        content = json.loads((other / "run.json").read_text())
        content["options"]["train_split"] = "validation"  # so that train is predicted
        (other / "run.json").write_text(json.dumps(content))
        _, splits, _ = predict_records([other], given.data, folder)
        rights.append(splits["train"].argmax(axis=1) == _labels(given.data, "train"))
    _, _, forgotten = predict_records([given.run_dir], given.data, tmp_path)
    rights = np.array(rights)
    expected = (rights[:-1] & ~rights[1:]).sum(axis=0)
    expected[~rights.any(axis=0)] = 4
    assert forgotten["train"].tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1
    result = audit(given.data, {"forgotten": 1.0}, Predictions("label", {}, forgotten))
    rows = result.findings["forgotten"]
    assert len(rows) == (expected >= 1).sum()
    assert rows["value"].to_pylist() == sorted(expected[expected >= 1].tolist(), reverse=True)


def test_runs_that_say_nothing_of_a_set(run, write_set, options, tmp_path):
    with pytest.raises(UsageError, match=r"No run of 'shardmill train' in .*nothing"):
        predict_records([tmp_path / "nothing"], run.data, tmp_path)
    run.data.rename(tmp_path / "first")
    other = write_set(train=20, test=8).rename(tmp_path / "second")
    with pytest.raises(UsageError, match="was trained on another set"):
        predict_records([run.run_dir], other, tmp_path)
    write_set(train=20)
    alone = options(run_dir=tmp_path / "alone", epochs=1, validation_split="none")
    train(alone)
    with pytest.raises(UsageError, match="no prediction is out of sample"):
        predict_records([alone.run_dir], alone.data, tmp_path)


def test_any_number_of_labels_are_not_judged(write_set, options, tmp_path):
    write_set(label_shape=(-1,), train=32, validation=13)
    given = options(epochs=1, augment="none")
    train(given)
    with pytest.raises(UsageError, match="does not predict one label of a record"):
        predict_records([given.run_dir], given.data, tmp_path)
