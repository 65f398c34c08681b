"""One corpus in every form: the same images, and the same bytes however the work is done."""

from __future__ import annotations

import os
import shutil

import pytest

from shard_format import decode_example, read_records, verify

from .conftest import FORMS, files_of, kept


def images_in(out):
    """Every (class name, stored image) of a set, sorted."""
    results = []
    names = (out / "label.labels.txt").read_text().splitlines()
    for shard in sorted(out.glob("*.tfrecord-*")):
        for _, payload in read_records(shard):
            features = decode_example(payload)
            results.append((names[features["label"][0]], features["image"][0]))
    return sorted(results)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_images_of_class_folders(form, make_images, records, tmp_path):
    corpus = make_images(13)
    source, options = FORMS[form](corpus, tmp_path / "form")
    results = kept(records(source, **options))
    assert records.source == form.partition(",")[0].partition(" ")[0].replace(
        "webdataset", "tar"
    ).partition(".")[0].replace("feather", "arrow")
    expected = sorted((data, name.split("/")[0]) for name, data in files_of(corpus).items())
    assert sorted(results.values()) == expected


@pytest.mark.parametrize("form", [form for form in FORMS if form != "class-folders"])
def test_the_same_bytes_however_the_work_is_done(form, make_images, build, tmp_path):
    corpus = make_images(13)
    source, options = FORMS[form](corpus, tmp_path / "form")
    plain = build(source, "one", **options).manifest
    assert plain.ledger.kept == plain.ledger.read == 13
    assert verify(tmp_path / "one")[1] == []
    build(corpus, "folders")
    assert images_in(tmp_path / "one") == images_in(tmp_path / "folders")

    copy = tmp_path / "elsewhere" / source.name
    copy.parent.mkdir()
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    for path in [copy, *copy.rglob("*")]:
        os.utime(path, (1, 1))
    options = {name: value.replace(str(source), str(copy)) for name, value in options.items()}
    assert build(copy, "two", workers=2, unit_size="1KiB", **options).manifest == plain


def test_a_shard_set_is_a_source_with_its_class_names(make_images, build, records, tmp_path):
    build(make_images(13), "first", split="train=0.5,test=0.5", num_shards=2)
    results = kept(records(tmp_path / "first"))
    assert records.source == "tfrecord"
    assert sorted((label, data) for data, label in results.values()) == images_in(
        tmp_path / "first"
    )
    again = build(tmp_path / "first", "again").manifest
    assert again.ledger.kept == 13
    assert again.schema["label"].class_names == ("class0", "class1", "class2")
    records(tmp_path / "first", split="folders")
    assert {item.split for item in records.items} == {"train", "test"}


def test_several_archives_in_any_order(make_images, build, tmp_path):
    source, _ = FORMS["tar"](make_images(13), tmp_path / "form")
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    files = [str(source / "0.tar"), str(source / "1.tar")]
    expected = build(source).manifest
    for number, sources in enumerate((files, files[::-1], [str(source / "*.tar")])):
        options = ImageOptions(
            tuple(sources), str(tmp_path / f"set{number}"), workers=1, resize="shorter:32"
        )
        assert preprocess(options).manifest == expected
