"""Documents: a classifier learns a rule, a language model a rhyme; both from shard sets."""

import dataclasses
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import Stopped, stop_after

from inference.export import ExportOptions, export
from inference.export.predicting import open_predictor
from inference.export.trained_run import in_float32
from shard_format import InputError, UsageError
from trainer import MODELS, train
from trainer.loop import Loop, StepOptions
from trainer.models import causal_transformer, text_transformer, transformer
from trainer.models.build import build_model
from trainer.models.shapes import SequenceShape, TokenShape
from trainer.objective import Objective
from trainer.optimization import OPTIMIZERS
from trainer.precision import dtype_policy
from trainer.strategies import STRATEGIES

DOCUMENTS = TokenShape(max_tokens=12, vocabulary_size=20, pad_id=19)
SEQUENCES = SequenceShape(length=10, vocabulary_size=20)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One layer is traced in a fraction of the time of four, and has every part of them."""
    for module in (text_transformer, causal_transformer):
        monkeypatch.setattr(module, "DEPTH", 1)
    monkeypatch.setattr(transformer, "WIDTH", 32)


def documents(count, seed):
    """Class 1 has a 5 somewhere, class 0 has none."""
    generator = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        ids = generator.integers(6, 40, generator.integers(3, 14)).tolist()
        if number % 2:
            ids[generator.integers(len(ids))] = 5
        examples.append((ids, number % 2))
    return examples


def rhymes(count, seed):
    """Packed documents that count up from where they begin; 24 positions."""
    generator = np.random.default_rng(seed)
    begins = generator.integers(1, 30, (count, 3)).tolist()
    return [[[b + i for i in range(7)] for b in row] for row in begins]


@pytest.fixture
def text(options):
    def make(**changes):
        return options(**{"model": None, "image_size": None, "augment": "none", **changes})

    return make


def build(name, shape, num_outputs, policy="float32"):
    keras.utils.set_random_seed(0)
    with dtype_policy(policy):
        return build_model(name, MODELS, shape, num_outputs)


def sequences(tokens, segments):
    positions = [[row[:i].count(row[i]) for i in range(len(row))] for row in segments]
    inputs = {"tokens": tokens, "segments": segments, "positions": positions}
    return {name: tf.constant(values, tf.int64) for name, values in inputs.items()}


SHAPES = {"text_transformer": DOCUMENTS, "causal_transformer": SEQUENCES}


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("text_transformer", "mixed_float16"),
        ("causal_transformer", "float32"),
        *(
            pytest.param(*each, marks=pytest.mark.proof)
            for each in [
                ("text_transformer", "float32"),
                ("causal_transformer", "mixed_float16"),
                ("text_transformer", "mixed_bfloat16"),
                ("causal_transformer", "mixed_bfloat16"),
            ]
        ),
    ],
)
def test_both_models_take_a_step_in_any_precision(name, policy):
    model = build(name, SHAPES[name], 20, policy)
    assert model.output.dtype == "float32"
    optimizer = OPTIMIZERS["adamw"](1e-3, 0.01)
    optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(4))
    ids = np.random.default_rng(0).integers(1, 19, (4, 10))
    if name == "text_transformer":
        batch = (ids, np.arange(4, dtype=np.int64))
    else:
        inputs = sequences(ids.tolist(), [[1] * 6 + [2] * 4] * 4)
        batch = (inputs, ids, np.ones((4, 10), np.float32))
    before = model.get_weights()
    totals = loop.train(iter(tf.data.Dataset.from_tensors(batch).repeat()), 2, lambda *_: None)
    assert totals.bad_step == -1
    assert totals.examples == (8 if name == "text_transformer" else 80)
    after = model.get_weights()
    assert np.mean([not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]) > 0.9


def test_padding_does_not_change_what_a_document_is():
    model = build("text_transformer", DOCUMENTS, 3)
    ids = [4, 7, 1]
    alone = model(tf.constant([ids]))
    padded = model(tf.constant([ids + [19] * 6, [19] * 9, [2] * 9]))
    np.testing.assert_allclose(alone[0], padded[0], atol=1e-5)
    assert np.isfinite(padded).all()


def test_packed_documents_do_not_see_each_other():
    model = build("causal_transformer", SEQUENCES, 20)
    segments = [[1, 1, 1, 1, 2, 2, 2, 2, 0, 0]]
    first = model(sequences([[1, 2, 3, 4, 5, 6, 7, 8, 0, 0]], segments)).numpy()
    other = model(sequences([[9, 9, 9, 9, 5, 6, 7, 8, 0, 0]], segments)).numpy()
    np.testing.assert_allclose(first[0, 4:8], other[0, 4:8], atol=1e-6)
    assert np.abs(first[0, :4] - other[0, :4]).max() > 1e-4


def test_a_token_does_not_see_those_after_it():
    model = build("causal_transformer", SEQUENCES, 20)
    segments = [[1] * 10]
    first = model(sequences([[1, 2, 3, 4, 5, 6, 7, 8, 9, 1]], segments)).numpy()
    other = model(sequences([[1, 2, 3, 4, 5, 9, 9, 9, 9, 9]], segments)).numpy()
    np.testing.assert_allclose(first[0, :5], other[0, :5], atol=1e-6)
    assert np.abs(first[0, 5:] - other[0, 5:]).max() > 1e-4


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_targets_without_weight_count_for_nothing(smoothing):
    model = build("causal_transformer", SEQUENCES, 20)
    objective = Objective(model, smoothing)
    loop = Loop(
        STRATEGIES["default"](), model, keras.optimizers.SGD(0.0), StepOptions(2), objective
    )
    generator = np.random.default_rng(1)
    targets = generator.integers(0, 20, (2, 10))
    weights = generator.integers(0, 2, (2, 10)).astype(np.float32)
    inputs = sequences(generator.integers(1, 20, (2, 10)).tolist(), [[1] * 10] * 2)
    batches = tf.data.Dataset.from_tensors((inputs, targets, weights))
    totals = loop.validate(iter(batches), 1, lambda *_: None)
    probabilities = model(inputs).numpy()
    chosen = np.take_along_axis(probabilities, targets[..., None], axis=-1)[..., 0]
    assert totals.examples == weights.sum()
    assert totals.loss == pytest.approx(-(np.log(chosen) * weights).sum(), rel=1e-5)
    right = (probabilities.argmax(-1) == targets) & (weights > 0)
    assert totals.correct == right.sum()


@pytest.mark.proof  # as the demo is, which learns from real questions
def test_a_classifier_learns_a_rule(token_set, text):
    token_set("data", train=documents(300, 0), validation=documents(61, 1))
    given = text(epochs=12, batch_size=20, learning_rate=2e-3, max_tokens=16)
    events = []
    result = train(given, events.append)
    assert (events[0].model, events[0].num_classes) == ("text_transformer", 2)
    assert result.final.val_accuracy > 0.9  # chance is 1/2
    assert result.final.val_accuracy * 61 == pytest.approx(round(result.final.val_accuracy * 61))
    assert result.final.perplexity is None
    record = json.loads((given.run_dir / "run.json").read_text())
    assert record["identity"]["max_tokens"] == 16 and record["identity"]["image_size"] is None
    # the saved model, alone, answers as measured
    saved = keras.models.load_model(result.model_path)
    right = [saved(tf.constant([ids])).numpy().argmax() == label for ids, label in documents(61, 1)]
    assert np.mean(right) == pytest.approx(result.final.val_accuracy)


def test_a_language_models_perplexity_falls(packed_set, text):
    packed_set(24, "data", train=rhymes(96, 0), validation=rhymes(13, 1))
    given = text(epochs=6, batch_size=16, learning_rate=3e-3, precision="mixed_bfloat16")
    events = []
    result = train(given, events.append)
    assert (events[0].model, events[0].num_classes) == ("causal_transformer", 51)
    first, last = result.history[0], result.final
    assert last.val_perplexity < first.val_perplexity / 2 < 25
    assert last.val_perplexity == pytest.approx(math.exp(last.val_loss))
    assert last.val_token_accuracy > 0.3 and last.accuracy is last.val_accuracy is None
    assert last.tokens_per_second == pytest.approx(last.examples_per_second * 18)
    history = json.loads((given.run_dir / "history.json").read_text())
    assert history[-1]["val_perplexity"] == last.val_perplexity
    accumulator = EventAccumulator(str(given.run_dir / "tensorboard" / "validation")).Reload()
    assert set(accumulator.Tags()["tensors"]) == {"loss", "perplexity", "token_accuracy"}
    assert keras.models.load_model(result.model_path).output.dtype == "float32"
    again = train(given)  # finished: nothing is trained again
    assert again.history == result.history
    require_same_in_an_export(given.run_dir, result.model_path)


def require_same_in_an_export(run_dir, model_path):
    served = export(ExportOptions(run_dir, run_dir / "served")).path
    tokens = np.random.default_rng(0).integers(1, 30, (3, 23)).tolist()
    inputs = sequences(tokens, [[0] * 12 + [1] * 11] * 3)
    expected = in_float32(keras.models.load_model(model_path))(inputs)
    outputs = tf.saved_model.load(str(served)).signatures["serving_default"](**inputs)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    with pytest.raises(UsageError, match="holds a language model, which predicts no classes"):
        open_predictor(served)


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["tokens", "packed"])
def test_a_continued_run_is_one_that_never_stopped(token_set, packed_set, text, tmp_path, kind):
    if kind == "tokens":
        token_set("data", train=documents(64, 0), validation=documents(9, 1))
    else:
        packed_set(24, "data", train=rhymes(16, 0), validation=rhymes(5, 1))
    runs = [
        text(epochs=2, run_dir=tmp_path / name, batch_size=8, warmup_epochs=0.5)
        for name in ("whole", "cut")
    ]
    whole = train(runs[0])
    with pytest.raises(Stopped):
        train(runs[1], stop_after(1))
    cut = train(runs[1])
    weights = [keras.models.load_model(r.model_path).get_weights() for r in (whole, cut)]
    assert all(map(np.array_equal, *weights))
    assert [e.loss for e in cut.history] == [e.loss for e in whole.history]
    with pytest.raises(InputError, match="batch_size was 8, is 4"):
        train(dataclasses.replace(runs[1], batch_size=4))


def test_defaults_depend_on_the_set(options):
    asked = options(
        **dict.fromkeys(("model", "image_size", "batch_size", "epochs")), learning_rate=0.5
    )
    images, tokens, packed = (asked.settled(kind) for kind in ("image", "tokens", "packed"))
    assert (images.model, images.image_size, images.max_tokens) == ("small_cnn", 64, None)
    assert (images.batch_size, images.epochs, images.warmup_epochs) == (32, 10, 3.0)
    assert (tokens.model, tokens.image_size, tokens.max_tokens) == ("text_transformer", None, 256)
    assert (packed.model, packed.max_tokens) == ("causal_transformer", None)
    assert {s.learning_rate for s in (images, tokens, packed)} == {0.5}
    assert tokens.settled("tokens") == tokens


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("tokens", {"image_size": 64}, "--image-size 64 does not apply to token ids .* for images"),
        ("image", {"max_tokens": 64}, "--max-tokens 64 does not apply to images .* for token ids"),
        ("packed", {"max_tokens": 64}, "--max-tokens 64 does not apply to packed .* for token ids"),
        (
            "tokens",
            {"model": "small_cnn"},
            "--model small_cnn is not for token ids.* pass one of text_transformer or",
        ),
        (
            "packed",
            {"model": "text_transformer"},
            "--model text_transformer is not for packed .* causal_transformer or",
        ),
        (
            "image",
            {"model": "text_transformer"},
            "--model text_transformer is not for images.* pass one of small_cnn,",
        ),
        (
            "tokens",
            {"model": "a:b", "normalize": "zscore"},
            "--normalize zscore does not apply to token ids",
        ),
        ("tokens", {"normalize": "zscore"}, "--normalize zscore does not apply to token ids"),
        (
            "image",
            {"normalize": "zscore"},
            "--normalize zscore does not work with --model small_cnn: .* --model package",
        ),
    ],
)
def test_options_of_other_sets_are_refused(text, kind, changes, message):
    with pytest.raises(UsageError, match=message):
        text(**changes).settled(kind)


def test_sets_that_are_none_to_learn_from(token_set, text_set, text, tmp_path):
    raw = text_set(train=[("a b", 0), ("c", 1)])
    with pytest.raises(UsageError, match=r"holds raw text.*--train-tokenizer bpe:8000"):
        train(text(data=raw))
    token_set("data", classes=0, train=[([1, 2], 0)] * 9)
    with pytest.raises(UsageError, match=r"have no labels.* build it with --pack 512\."):
        train(text())
    assert not (tmp_path / "run").exists()


def test_a_model_of_ones_own_reads_tokens(token_set, text, tmp_path, monkeypatch):
    (tmp_path / "own_text_model.py").write_text(
        "import keras\n"
        "def bag(input_shape, num_classes):\n"
        "    ids = keras.Input((None,), dtype='int32')\n"
        "    x = keras.layers.Embedding(input_shape.vocabulary_size, 8)(ids)\n"
        "    x = keras.layers.GlobalAveragePooling1D()(x)\n"
        "    return keras.Model(ids, keras.layers.Dense(num_classes)(x))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    token_set("data", train=documents(32, 0))
    result = train(text(model="own_text_model:bag", epochs=1))
    assert np.isfinite(result.final.loss) and result.final.val_loss is None
