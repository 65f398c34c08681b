"""Schedules, optimizers, the best epoch, early ends, weights from files: each also continued."""

import dataclasses
import importlib
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tiny
from outcomes import TIMED
from tiny import Stopped, stop_after

from shard_format import InputError, UsageError
from trainer import MODELS, OPTIMIZERS, RunStarted, train
from trainer.checkpointing.best import best_epoch, is_over
from trainer.models import applications
from trainer.models.build import build_model
from trainer.models.pretrained import load_weights
from trainer.optimization import SCHEDULES
from trainer.optimization.schedules import SchedulePlan
from trainer.run import train_on

PLAN = SchedulePlan(peak=1.0, warmup_steps=10, num_steps=110, decay_steps=(40, 80))
EXPECTED = {
    "cosine": {0: 0.0, 5: 0.5, 10: 1.0, 60: 0.5, 110: 0.0},
    "step": {0: 0.0, 5: 0.5, 10: 1.0, 39: 1.0, 40: 0.1, 80: 0.01, 109: 0.01},
    "constant": {0: 0.0, 5: 0.5, 10: 1.0, 109: 1.0},
    "one_cycle": {0: 0.04, 33: 1.0, 110: 4e-6},
}


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_learning_rates_rise_and_fall_as_named(name):
    schedule = SCHEDULES[name](PLAN)
    for step, rate in EXPECTED[name].items():
        assert float(schedule(step)) == pytest.approx(rate, rel=1e-4, abs=1e-6), step
    assert max(float(schedule(step)) for step in range(111)) == pytest.approx(1.0)
    if name != "one_cycle":
        assert float(SCHEDULES[name](PLAN._replace(warmup_steps=0))(0)) == 1.0


COMBINED = {"ema": 0.9, "clip_norm": 1.0, "accumulate": 2, "label_smoothing": 0.1}


@pytest.mark.parametrize(
    ("optimizer", "schedule", "precision"),
    [
        ("lion", "step", "mixed_float16"),
        pytest.param("lamb", "one_cycle", "float32", marks=pytest.mark.proof),
        pytest.param("sgd", "constant", "mixed_bfloat16", marks=pytest.mark.proof),
        pytest.param("adamw", "step", "mixed_float16", marks=pytest.mark.proof),
    ],
)
def test_a_continued_run_is_one_that_never_stopped(
    options, tmp_path, optimizer, schedule, precision
):
    assert optimizer in OPTIMIZERS
    changes = {"optimizer": optimizer, "schedule": schedule, "precision": precision, **COMBINED}
    whole, cut = (
        options(model="tiny:with_norm", epochs=3, run_dir=tmp_path / name, **changes)
        for name in ("whole", "cut")
    )
    train_on(tiny.data(), whole)
    with pytest.raises(Stopped):
        train_on(tiny.data(), cut, stop_after(2))
    train_on(tiny.data(), cut)
    for name in ("model.keras", "best.keras"):
        one, other = (keras.models.load_model(run.run_dir / name) for run in (whole, cut))
        assert all(map(np.array_equal, one.get_weights(), other.get_weights()))
    histories = [json.loads((run.run_dir / "history.json").read_text()) for run in (whole, cut)]
    for a, b in zip(*histories, strict=True):
        assert {k: v for k, v in a.items() if k not in TIMED} == {
            k: v for k, v in b.items() if k not in TIMED
        }


def test_the_best_epoch_is_kept_and_a_run_without_a_better_one_ends(options):
    """A learning rate that grows for four epochs, until the loss does too."""
    given = options(
        optimizer="sgd", learning_rate=30.0, warmup_epochs=4.0, epochs=8, patience=2, seed=1
    )
    result = train_on(tiny.data(), given)
    losses = [epoch.val_loss for epoch in result.history]
    assert result.best.val_loss == min(losses) and result.best.epoch == len(losses) - 2 < 6
    images, labels = tiny.make_images(13, 8, 1)
    probabilities = keras.models.load_model(result.best_path).predict(images, verbose=0)
    measured = -np.log(probabilities[np.arange(13), labels]).mean()
    assert measured == pytest.approx(result.best.val_loss, rel=1e-4)
    record = json.loads((given.run_dir / "run.json").read_text())
    assert record["best"]["epoch"] == result.best.epoch
    assert record["final"] == dataclasses.asdict(result.final)
    assert record["options"]["patience"] == 2

    again = train_on(tiny.data(), given)  # over: nothing is trained
    assert again.history == result.history
    more = train_on(tiny.data(), dataclasses.replace(given, patience=3))
    assert len(more.history) == len(losses) + 1


def test_the_best_epoch_of_a_history(options):
    result = train_on(tiny.data(), options(epochs=1))
    epochs = [
        dataclasses.replace(result.final, epoch=1 + number, val_loss=loss, val_accuracy=accuracy)
        for number, (loss, accuracy) in enumerate([(0.5, 0.6), (0.4, 0.7), (0.4, 0.8), (0.6, 0.8)])
    ]
    assert best_epoch(epochs, "loss").epoch == 2 and best_epoch(epochs, "accuracy").epoch == 3
    unmeasured = [dataclasses.replace(each, val_loss=None) for each in epochs]
    assert best_epoch(unmeasured, "loss") is None is best_epoch([], "loss")
    given = options(epochs=9, patience=2).settled("image")
    assert [is_over(epochs[:n], given) for n in range(1, 5)] == [False, False, False, True]
    assert not is_over(unmeasured, given)
    with pytest.raises(UsageError, match="--patience 2 needs a validation split"):
        data = dataclasses.replace(tiny.data(), validation=None)
        train_on(data, options(patience=2, run_dir=options().run_dir / "other"))


SHAPE = (8, 8, 3)


def network(classes=5, width=4, include_top=True, activation="softmax"):
    """With models and layers as those of keras.applications have them."""
    layers = keras.layers
    inputs = keras.Input(SHAPE)
    x = layers.Normalization()(inputs)
    for _ in range(2):
        x = layers.SeparableConv2D(width, 3, use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Dropout(0.1)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(
        inputs, layers.Dense(classes, activation=activation)(x) if include_top else x
    )


def small(shape, classes):
    pixels = keras.Input(shape)
    return keras.Model(pixels, network(classes, activation=None)(pixels))


def build(classes=5, seed=1):
    keras.utils.set_random_seed(seed)
    return build_model("small", {"small": small}, SHAPE, classes)


def save_legacy(model, path):
    """As Keras 2 wrote the weights of its applications."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = file.create_group(layer.name)
            names = [f"{layer.name}/{number}" for number in range(len(layer.weights))]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, weight in zip(names, layer.weights, strict=True):
                group[name] = weight.numpy()


def own_weights(model):
    """Without the states of random generators."""
    return [weight.numpy() for weight in model.weights]


@pytest.mark.parametrize("kind", ["run", "keras", "h5", "legacy", "no top"])
def test_weights_come_from_files_of_every_kind(tmp_path, kind):
    keras.utils.set_random_seed(7)
    theirs = build(seed=7) if kind == "run" else network(include_top=kind != "no top")
    path = tmp_path / ("w.keras" if kind in ("run", "keras") else "w.h5")
    if kind in ("legacy", "no top"):
        save_legacy(theirs, path)
    else:
        theirs.save(path)
    model = build()
    head = own_weights(model)[-2:]
    assert load_weights(model, path) is (kind != "no top")
    expected = own_weights(theirs) + (head if kind == "no top" else [])
    for a, b in zip(own_weights(model), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["resnet50", "efficientnet_b0", "convnext_tiny", "nasnet_mobile"])
def test_networks_of_keras_take_the_weights_of_their_files(tmp_path, name):
    keras.utils.set_random_seed(7)
    constructor = getattr(keras.applications, applications._NETWORKS[name][0])
    theirs = constructor(weights=None, input_shape=(32, 32, 3), classes=5)
    save_legacy(theirs, tmp_path / "w.h5")
    theirs.save(tmp_path / "w.keras")
    for file in ("w.h5", "w.keras"):
        model = build_model(name, MODELS, (32, 32, 3), 5)
        assert load_weights(model, tmp_path / file)
        pixels = np.random.default_rng(0).uniform(0, 255, (2, 32, 32, 3)).astype(np.float32)
        module = importlib.import_module(constructor.__module__.replace(".src", ""))
        expected = theirs(module.preprocess_input(pixels.copy()), training=False)
        np.testing.assert_allclose(model(pixels, training=False), expected, atol=1e-5)


def test_a_head_of_other_classes_is_left_out_and_other_networks_are_refused(tmp_path):
    path = tmp_path / "seven.keras"
    network(7).save(path)
    model = build()
    assert load_weights(model, path) is False
    other = tmp_path / "other.keras"
    network(5, width=6).save(other)
    before = own_weights(model)
    with pytest.raises(
        InputError,
        match=r"Weight 5 in .*other\.keras has shape \(1, 1, 3, 6\), and '.*' of layer 'se",
    ):
        load_weights(model, other)
    assert all(map(np.array_equal, before, own_weights(model)))
    tiny.dense((8, 8, 3), 5).save(other)
    with pytest.raises(InputError, match="has 4 weights, and the model has 15 and 2 of its head"):
        load_weights(model, other)
    with pytest.raises(InputError, match=r"No file imagenet .* downloads nothing\. On a .*save\("):
        load_weights(model, Path("imagenet"))
    other.write_bytes(b"no zip")
    with pytest.raises(InputError, match=r"other\.keras is no \.keras file: it is no zip archive"):
        load_weights(model, other)
    model.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(InputError, match="No file"):
        load_weights(model, tmp_path / "none.keras")
    with pytest.raises(UsageError, match=r"no \.keras or \.h5 file"):
        load_weights(model, tmp_path / "a.weights.h5")


def test_two_phases_train_the_head_and_then_everything(options, tmp_path):
    common = {"model": "tiny:with_norm", "epochs": 1, "warmup_epochs": 0.0}
    head, whole = (options(run_dir=tmp_path / name, **common) for name in ("head", "whole"))
    head = dataclasses.replace(head, freeze=True)
    keras.utils.set_random_seed(head.seed)
    untrained = tiny.with_norm((8, 8, 3), 3).get_weights()
    first = train_on(tiny.data(), head)
    frozen = keras.models.load_model(first.model_path).get_weights()
    same = [np.array_equal(a, b) for a, b in zip(untrained, frozen, strict=True)]
    assert same[:5] == [True] * 5 and not any(same[-2:])  # kernel, norm; then the head
    second = dataclasses.replace(whole, weights=first.best_path, learning_rate=1e-9)
    result = train_on(tiny.data(), second)
    tuned = keras.models.load_model(result.model_path)
    start = keras.models.load_model(first.best_path)
    for a, b in zip(tuned.trainable_weights, start.weights[:3] + start.weights[5:], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
    with pytest.raises(InputError, match="weights was None, is "):
        train_on(tiny.data(), dataclasses.replace(head, weights=tmp_path / "other.keras"))


@pytest.mark.proof
def test_two_phases_are_two_runs(write_set, options, tmp_path):
    """Each resumes where it stopped; the file between them is no part of the run's identity."""
    write_set(train=32, validation=8)
    body = options(model="tiny:with_norm", epochs=2, learning_rate=1e-3, batch_size=8)
    whole = dataclasses.replace(body, head_epochs=2, head_learning_rate=0.1)
    head = dataclasses.replace(body, learning_rate=0.1, freeze=True, run_dir=tmp_path / "head only")
    seen = []

    def stop_twice(event):
        seen.append(event)
        stop_after(1)(event)

    for directory in (whole.run_dir / "head", whole.run_dir):
        with pytest.raises(Stopped):
            train(whole, stop_twice)
        assert (directory / "history.json").exists()
    result = train(whole, seen.append)
    phases = [(each.head_only, each.first_epoch) for each in seen if isinstance(each, RunStarted)]
    assert phases == [(True, 1), (True, 2), (False, 1), (True, 3), (False, 2)]

    first = train(head)
    second = dataclasses.replace(body, weights=first.best_path, run_dir=tmp_path / "second")
    expected = keras.models.load_model(train(second).model_path).get_weights()
    weights = keras.models.load_model(result.model_path).get_weights()
    assert all(map(np.array_equal, weights, expected))
    with pytest.raises(InputError, match=r"head holds a run with other .* epochs was 2, is 3"):
        train(dataclasses.replace(whole, head_epochs=3))


def test_runs_of_versions_without_these_options_are_continued(options):
    given = options(epochs=2)
    with pytest.raises(Stopped):
        train_on(tiny.data(), given, stop_after(1))
    path = given.run_dir / "run.json"
    record = json.loads(path.read_text())
    for name in ("schedule", "ema", "clip_norm", "freeze", "class_weights", "monitor", "weights"):
        del record["identity"][name]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="schedule was 'cosine', is 'constant'"):
        train_on(tiny.data(), dataclasses.replace(given, schedule="constant"))
    assert len(train_on(tiny.data(), given).history) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "linear"}, "Unknown --schedule 'linear'. Choices: cosine, step,"),
        ({"decay_epochs": "3,6"}, "--decay-epochs is for --schedule step and cannot"),
        ({"decay_epochs": "6,3", "schedule": "step"}, "is '6,3'. Pass growing numbers"),
        ({"decay_epochs": "a", "schedule": "step"}, "is 'a'. Pass growing numbers"),
        ({"schedule": "one_cycle", "warmup_epochs": 1.0}, "--warmup-epochs does not apply to a"),
        ({"ema": 1.0}, r"--ema is 1.0. Pass a finite number in \(0, 1\)"),
        ({"clip_norm": 0.0}, "--clip-norm is 0.0. Pass a finite number above 0"),
        ({"head_learning_rate": 0.1}, "Pass --head-epochs too"),
        ({"head_epochs": 1, "freeze": True}, "--head-epochs is followed by|is followed by a"),
        ({"accumulate": 0}, "--accumulate is 0. Pass an integer of at least 1"),
        ({"monitor": "acc"}, "Did you mean 'accuracy'"),
        ({"patience": 0}, "--patience is 0"),
    ],
)
def test_wrong_options_are_refused(options, changes, message):
    with pytest.raises(UsageError, match=message):
        options(**changes)


def test_every_member_is_covered_here():
    assert set(EXPECTED) == set(SCHEDULES)
    assert {"resnet50", "vgg16", "convnext_tiny"} < set(MODELS)
