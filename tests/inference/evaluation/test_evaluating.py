"""Models are measured as training measured them, whatever runs them and whatever holds the data."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny

from inference.evaluation.evaluating import evaluate
from inference.export import ExportOptions, export
from shard_format import InputError, ShardSetError, UsageError
from trainer import train


@pytest.fixture
def run(write_set, options):
    """A run on images, with the same records in its validation and its test split."""
    write_set(train=32, validation=13)
    return options(epochs=3, learning_rate=0.02, augment="none", validation_split="validation")


def test_a_run_is_measured_as_its_training_did(run):
    final = train(run).final
    result = evaluate(run.run_dir, split="validation")
    assert result.loss == pytest.approx(final.val_loss, rel=1e-5)
    assert result.accuracy == pytest.approx(final.val_accuracy)
    assert (result.runtime, result.records) == ("keras", 13)
    labels = tiny.make_images(13, 12, 1)[1]
    assert [one.support for one in result.classes] == np.bincount(labels).tolist()
    assert [one.name for one in result.classes] == list(tiny.NAMES)
    assert np.trace(result.matrix) == round(result.accuracy * 13)
    best = evaluate(run.run_dir, split="validation", epoch="best")
    assert best.model.endswith("best.keras")

    with pytest.raises(UsageError, match=r"No records in a split 'test' .* only in train, valid"):
        evaluate(run.run_dir)
    served = export(ExportOptions(run.run_dir, run.run_dir / "served", evaluate=True))
    keras_row, row = served.models
    assert row.accuracy == keras_row.accuracy == pytest.approx(final.val_accuracy)
    exported = evaluate(run.run_dir / "served", split="validation")
    assert (exported.runtime, exported.matrix) == ("saved-model", result.matrix)
    # The export resizes in float32, the reader in whole numbers: pixels differ by 1.
    assert exported.loss == pytest.approx(result.loss, rel=2e-3)
    assert evaluate(served.path, split="validation").loss == exported.loss


def test_another_set_may_have_some_of_the_classes_in_another_order(run, write_set, tmp_path):
    train(run)
    expected = evaluate(run.run_dir, split="validation")
    run.data.rename(tmp_path / "first")
    other = write_set(class_names=("red", "green", "x"), train=32, validation=13)
    other = other.rename(tmp_path / "other")
    swapped = write_set(class_names=("blue", "green", "red"), train=32, validation=13)
    swapped = swapped.rename(tmp_path / "swapped")
    (tmp_path / "first").rename(run.data)
    with pytest.raises(UsageError, match="1 class that the model does not know, such as 'x'"):
        evaluate(run.run_dir, other, "validation")
    result = evaluate(run.run_dir, swapped, "validation")
    assert [one.name for one in result.classes] == list(tiny.NAMES)
    # Who is blue there is called red, and the other way round.
    support = [one.support for one in expected.classes]
    assert [one.support for one in result.classes] == support[::-1]


def test_a_run_whose_set_is_another_one_asks_for_data(run, write_set):
    train(run)
    shutil.rmtree(run.data)
    write_set(train=16, validation=5)
    with pytest.raises((ShardSetError, UsageError), match=r"is another set .* with --data|--data"):
        evaluate(run.run_dir, split="validation")


def test_a_folder_of_classes_is_measured_as_predict_reads_it(run, tmp_path):
    train(run)
    images, labels = tiny.make_images(13, 12, 1)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = tmp_path / "photos" / tiny.NAMES[label]
        folder.mkdir(parents=True, exist_ok=True)
        content = tf.io.encode_jpeg(image, quality=95).numpy()
        (folder / f"{number}.jpg").write_bytes(content)
    (tmp_path / "photos" / "red" / "broken.jpg").write_bytes(b"nothing")
    result = evaluate(run.run_dir, tmp_path / "photos")
    expected = evaluate(run.run_dir, split="validation")
    assert result.matrix == expected.matrix and result.split is None
    assert [name.rpartition("/")[2] for name, _ in result.failed] == ["broken.jpg"]
    most = max(result.classes, key=lambda one: one.support)
    assert (result.baseline.class_name, result.baseline.chosen_on) == (most.name, "photos")
    (tmp_path / "photos" / "pink").mkdir()
    with pytest.raises(UsageError, match="1 class that the model does not know, such as 'pink'"):
        evaluate(run.run_dir, tmp_path / "photos")
    (tmp_path / "empty" / "red").mkdir(parents=True)
    with pytest.raises(InputError, match=r"No file in the folders of .*empty can be read"):
        evaluate(run.run_dir, tmp_path / "empty")


def test_any_number_of_labels(write_set, options):
    write_set(label_shape=(-1,), train=32, validation=13)
    given = options(epochs=3, learning_rate=0.02, augment="none")
    final = train(given).final
    result = evaluate(given.run_dir, split="validation")
    assert result.loss == pytest.approx(final.val_loss, rel=1e-5)
    assert (result.accuracy, result.f1) == (
        pytest.approx(final.val_accuracy),
        pytest.approx(final.val_f1),
    )
    export(ExportOptions(given.run_dir, given.run_dir / "served"))
    served = evaluate(given.run_dir / "served", split="validation")
    assert served.f1 == pytest.approx(result.f1) and served.matrix is None


def test_a_language_model_has_a_perplexity(packed_set, options):
    from trainer.models import causal_transformer

    rows = [[[b + i for i in range(7)] for b in range(n, n + 3)] for n in range(1, 21)]
    packed_set(24, "data", train=rows[:16], validation=rows[16:])
    given = options(model=None, image_size=None, augment="none", epochs=1)
    depth, causal_transformer.DEPTH = causal_transformer.DEPTH, 1
    try:
        final = train(given).final
    finally:
        causal_transformer.DEPTH = depth
    result = evaluate(given.run_dir, split="validation")
    assert result.perplexity == pytest.approx(final.val_perplexity, rel=1e-5)
    assert result.accuracy == pytest.approx(final.val_token_accuracy)
    assert result.classes == () and result.baseline is None
    export(ExportOptions(given.run_dir, given.run_dir / "served"))
    served = evaluate(given.run_dir / "served", split="validation")
    assert served.perplexity == pytest.approx(result.perplexity, rel=1e-4)


@pytest.mark.parametrize("to", ["tflite", "onnx"])
def test_files_for_other_runtimes(run, to):
    train(dataclasses.replace(run, epochs=1))
    expected = evaluate(run.run_dir, split="validation")
    out = run.run_dir / "phone"
    export(ExportOptions(run.run_dir, out, to=to))
    result = evaluate(out, split="validation")
    assert result.runtime == to and result.matrix == expected.matrix
    assert result.loss == pytest.approx(expected.loss, rel=1e-3)
    with pytest.raises(UsageError, match="Pass the run, or export it with --to saved-model"):
        evaluate(out, run.data.parent)


def test_what_is_no_model_or_several(tmp_path):
    with pytest.raises(InputError, match=r"Neither a run nor an exported model in .* --run-dir"):
        evaluate(tmp_path)
    for name in ("model-none.tflite", "model-int8.tflite"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"holds 2 models. Pass one of .*int8.*, .*none"):
        evaluate(tmp_path)
