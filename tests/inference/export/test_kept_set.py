"""A run is used without its set: after the set was deleted, replaced, or has lost records."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from beam_jobs.generations.compact import compact
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.text.recleaning import TextCleaner
from inference.export import ExportOptions, export
from inference.export.predicting import open_predictor
from shard_format import DamageError, ShardSetError
from tests.fixtures.proofs import proof, proofs
from trainer import TrainOptions, train
from trainer.checkpointing.kept_set import SET_MANIFEST
from trainer.models import text_transformer, transformer

PAGE = "<p>Where   is my <b>card</b>?</p><script>var hat = 1</script>"


def again(folder, build):
    """Builds (data, run) in a folder; restores them for each test, for a run names its set."""
    data, run = folder / "data", folder / "run"
    build(data, run)
    shutil.copytree(folder, folder.with_name("built"))

    def restore():
        shutil.rmtree(folder)
        shutil.copytree(folder.with_name("built"), folder)
        return data, run

    return restore


@pytest.fixture(scope="module")
def restored_image_run(samples, tmp_path_factory):
    source = tmp_path_factory.mktemp("photos")
    for name in ("hat", "shoes"):
        (source / name).mkdir()
        for path in sorted((samples / name).iterdir())[:20]:
            shutil.copy(path, source / name)

    def build(data, run):
        preprocess(_of_images(source, data))
        train(
            TrainOptions(
                data, run, model="tiny:dense", image_size=8, batch_size=8, epochs=1,
                normalize="zscore", precision="float32",
            )
        )  # fmt: skip

    return again(tmp_path_factory.mktemp("images") / "here", build)


@pytest.fixture
def image_run(restored_image_run):
    """The set of 40 photographs, and a run that was trained on it."""
    return restored_image_run()


def _of_images(source, out, **changes):
    values = {"resize": "shorter:24", "split": "train=0.8,test=0.2", "workers": 1}
    return ImageOptions((str(source),), str(out), no_report=True, **{**values, **changes})


@pytest.fixture(scope="module")
def restored_text_run(tmp_path_factory):
    rows = [
        {"text": f"<b>Question</b> {n}: where is <i>{what}</i> &amp; co?<br />", "label": what}
        for n in range(30)
        for what in ("card", "cash")
    ]
    source = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))

    def build(data, run):
        options = TextOptions(
            (str(source),), str(data), clean="html:all=true,nfc,whitespace:blanks=true,length",
            split="train=0.8,test=0.2", train_tokenizer="bpe:300", workers=1, no_report=True,
        )  # fmt: skip
        preprocess(options)
        with pytest.MonkeyPatch.context() as patch:
            # One layer is traced in a fraction of the time of four, and has every part of them.
            patch.setattr(text_transformer, "DEPTH", 1)
            patch.setattr(transformer, "WIDTH", 32)
            train(
                TrainOptions(data, run, epochs=1, max_tokens=16, batch_size=8, precision="float32")
            )

    return again(tmp_path_factory.mktemp("texts") / "here", build)


@pytest.fixture
def text_run(restored_text_run):
    """The set of 60 questions, and a run that was trained on it."""
    return restored_text_run()


def predictions(model, inputs, make_clean=None):
    predicted = open_predictor(model, make_clean=make_clean).predict(inputs, are_files=False)
    return [(one.classes, one.error) for one in predicted]


def compacted(data, samples):
    compact(data, [first_of(samples)])


def built_again(data, samples):
    preprocess(_of_images(samples, data, resize="shorter:10", overwrite=True))


def deleted(data, samples):
    shutil.rmtree(data)


@pytest.mark.parametrize("change", [*proofs(compacted, built_again), deleted])
def test_a_run_of_images_needs_no_set(image_run, samples, tmp_path, change):
    data, run = image_run
    hats = sorted((samples / "hat").iterdir())[:5]
    photographs = [(path.name, path.read_bytes()) for path in hats]
    before = predictions(run, photographs)
    report = reported(run, tmp_path / "before")
    change(data, samples)
    assert predictions(run, photographs) == before
    out = tmp_path / "after"
    assert reported(run, out) == report
    assert predictions(out, photographs) == predictions(tmp_path / "before", photographs)


@proof
def test_a_file_for_other_runtimes_needs_no_set(image_run, samples, tmp_path):
    data, run = image_run
    export(ExportOptions(run, tmp_path / "before", to="tflite"))
    deleted(data, samples)
    export(ExportOptions(run, tmp_path / "after", to="tflite"))
    files = [tmp_path / name / "model-none.tflite" for name in ("before", "after")]
    assert files[0].read_bytes() == files[1].read_bytes()


def reported(run, out):
    """What the export.json of a new export says, without names and sizes of its files."""
    report = json.loads(export(ExportOptions(run, out)).report.read_text())
    del report["options"], report["models"]
    return report


def first_of(photos):
    return f"hat/{min(path.name for path in (photos / 'hat').iterdir())}"


def test_what_needs_records_names_the_set_that_is_gone(image_run, tmp_path, samples):
    data, run = image_run
    out = tmp_path / "phone"
    calibrated = ExportOptions(run, out, to="tflite", quantize="int8", calibration=4)
    compact(data, [first_of(samples)])
    (note,) = export(calibrated).notes
    assert note == f"int8 was calibrated on {data}, which has changed since the training"
    with pytest.raises(ShardSetError, match=r"is another set .* --evaluate needs that set"):
        export(ExportOptions(run, out, evaluate=True))
    shutil.rmtree(data)
    with pytest.raises(ShardSetError, match="--quantize int8 needs the set that the run"):
        export(calibrated)
    with pytest.raises(ShardSetError, match="--evaluate needs the set that the run"):
        export(dataclasses.replace(calibrated, quantize="none", evaluate=True))


def test_a_run_of_texts_needs_no_set_and_cleans_as_it_did(text_run, tmp_path):
    data, run = text_run
    texts = [(text, text.encode()) for text in (PAGE, "<b>Question</b> 3: where is <i>cash</i>?")]
    before = predictions(run, texts, TextCleaner)
    served = export(ExportOptions(run, tmp_path / "served")).path
    shutil.rmtree(data)
    assert predictions(run, texts, TextCleaner) == before
    again = export(ExportOptions(run, tmp_path / "again"))
    assert predictions(again.path, texts, TextCleaner) == predictions(served, texts, TextCleaner)
    clean = ["Where is my card?", "Question 3: where is cash?"]
    assert predictions(run, [(text, text.encode()) for text in clean], TextCleaner) == before
    after = predictions(again.path, texts, TextCleaner)
    for (one, _), (two, _) in zip(after, before, strict=True):
        assert [name for name, _ in one] == [name for name, _ in two]
        np.testing.assert_allclose([s for _, s in one], [s for _, s in two], atol=1e-5)


def test_an_export_names_the_cleaning_that_it_leaves_out(text_run, tmp_path, shardmill):
    _, run = text_run
    done = shardmill("export", run, "--out", tmp_path / "served")
    assert "steps of the set that are not in the model: html, nfc. " in done.stdout
    report = json.loads((tmp_path / "served" / "1" / "export.json").read_text())
    assert [step["step"] for step in report["left_out"]] == ["html", "nfc"]
    refused = shardmill("export", run, "--strict", "--out", tmp_path / "strict")
    assert refused.returncode == 3 and not (tmp_path / "strict").exists()
    assert "cleaned by steps that a graph cannot have: html, nfc." in refused.stderr


def test_the_command_cleans_texts_and_says_what_preprocessing_would_reject(text_run, shardmill):
    _, run = text_run
    rows = json.loads(
        shardmill(
            "predict",
            run,
            "--text",
            PAGE,
            "--text",
            "Where is my card?",
            "--text",
            "<br />",
            "--json",
        ).stdout.splitlines()[-1]
    )["predictions"]
    assert rows[0]["name"] == PAGE and rows[0]["classes"] == rows[1]["classes"]
    assert [row["rejection"] for row in rows] == [
        "", "", "no-text-in-html: nothing but markup is there"
    ]  # fmt: skip
    done = shardmill("predict", run, "--text", "<br />")
    assert done.returncode == 0
    assert "note: <br />: preprocessing would reject it, no-text-in-html" in done.stderr


def test_a_run_of_an_earlier_version_works_while_its_set_is_there(image_run, samples):
    data, run = image_run
    photographs = [(path.name, path.read_bytes()) for path in sorted((samples / "hat").iterdir())]
    before = predictions(run, photographs[:3])
    (run / SET_MANIFEST).unlink()
    assert predictions(run, photographs[:3]) == before
    shutil.rmtree(data)
    with pytest.raises(ShardSetError, match=r"A run of an earlier version needs the set .* --data"):
        open_predictor(run)


def test_a_continued_run_keeps_its_set(image_run):
    _, run = image_run
    content = (run / SET_MANIFEST).read_text()
    (run / SET_MANIFEST).write_text(content.replace("hat", "cat"))
    with pytest.raises(DamageError, match=f"{SET_MANIFEST} was changed"):
        open_predictor(run)
    (run / SET_MANIFEST).unlink()
    record = json.loads((run / "run.json").read_text())["options"]
    names = ("model", "image_size", "batch_size", "epochs", "normalize", "precision")
    train(TrainOptions(image_run[0], run, **{name: record[name] for name in names}))
    assert (run / SET_MANIFEST).read_text() == content
