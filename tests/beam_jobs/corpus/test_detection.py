"""--source auto: by content, in a bounded look, and a question where it is not clear."""

from __future__ import annotations

import gzip
import os

import pytest

from beam_jobs.corpus import sampling, schema_inference
from beam_jobs.options import ImageOptions
from beam_jobs.stages.list import resolve_options
from shard_format import InputError

from .conftest import FORMS, JPEG, kept, reasons, tar_of, zip_of


def detected(*sources, **options):
    return resolve_options(ImageOptions(tuple(map(str, sources)), "out", **options)).source


@pytest.mark.parametrize("form", FORMS)
def test_names_do_not_matter(form, make_images, tmp_path):
    source, options = FORMS[form](make_images(6), tmp_path / "form")
    expected = detected(source, **options)
    if expected in ("class-folders", "table"):
        return
    files = [source] if source.is_file() else [path for path in source.iterdir()]
    for file in files:
        assert detected(file) == expected
        file.rename(file.with_name(f"no-suffix-{file.name.replace('.', '-')}"))
    folder = source.parent if source.suffix else source
    for path in folder.rglob("*plain*"):
        path.unlink()
    assert detected(folder) == expected


def test_what_is_mixed_is_asked(make_images, tmp_path):
    corpus = make_images(6)
    tar_of(corpus / "class0" / "more.tar", {"a/1.jpg": b"x"})
    with pytest.raises(InputError, match=r"6 image, 1 tar\. .*--source \(class-folders"):
        detected(corpus)
    assert detected(corpus, source="class-folders") == "class-folders"
    one = tar_of(tmp_path / "a.tar", {"a/1.jpg": b"x"})
    with pytest.raises(InputError, match="several kinds"):
        detected(one, make_images(3, name="other"))


def test_a_few_odd_files_are_rejected_and_the_rest_is_read(make_images, tmp_path, records):
    corpus = make_images(40)
    tar_of(corpus / "class0" / "odd.tar", {"a/1.jpg": b"x"})
    zip_of(corpus / "class1" / "odd.zip", {"a/1.jpg": b"x"})
    (corpus / "class2" / "notes.txt").write_bytes(b"some words")
    job = resolve_options(ImageOptions((str(corpus),), "out"))
    assert job.source == "class-folders"
    assert job.notes == (
        "Among the first files are 40 image, 1 tar, 1 zip: --source class-folders is used, and "
        "files of other kinds are rejected.",
    )
    assert len(records(corpus)) == 43  # decoding rejects the odd ones
    many = tmp_path / "tars"
    for number in range(12):
        tar_of(many / f"{number}.tar", {f"a/{number}.jpg": JPEG})
    (many / "cover.jpg").write_bytes(JPEG)
    results = records(many)
    assert records.source == "tar"
    assert len(kept(results)) == 12
    assert set(reasons(results)) == {"cover.jpg"}
    assert results["cover.jpg"][2] == JPEG  # quarantine has it


def test_a_file_that_is_named_is_not_odd(make_images, tmp_path):
    one = tar_of(tmp_path / "a.tar", {"a/1.jpg": b"x"})
    with pytest.raises(InputError, match="40 image, 1 tar"):
        detected(one, make_images(40))


def test_what_is_nothing_is_left_to_class_folders(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_bytes(b"x")
    (tmp_path / "gz").write_bytes(gzip.compress(b"hello"))
    for name in ("empty", "text", "gz", "missing"):
        assert detected(tmp_path / name) == "class-folders"


def test_empty_and_damaged_files_go_by_their_names(tmp_path):
    for name, expected in (
        ("a.tar", "tar"), ("a.tgz", "tar"), ("a.tar.zst", "tar"), ("a.zip", "zip"),
        ("a.parquet", "parquet"), ("a.feather", "arrow"), ("a.arrow", "arrow"),
        ("x.tfrecord-00000-of-00001", "tfrecord"), ("t10k-images-idx3-ubyte.gz", "idx"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"")
        assert detected(tmp_path / name) == expected


def test_a_look_is_bounded(tmp_path, monkeypatch):
    for folder in range(90):
        (tmp_path / "c" / f"{folder:03d}").mkdir(parents=True)
        for file in range(40):
            (tmp_path / "c" / f"{folder:03d}" / f"{file}.jpg").write_bytes(b"\xff\xd8\xff")
    opened = []
    real = schema_inference.image_kind
    monkeypatch.setattr(
        schema_inference, "image_kind", lambda path: opened.append(path) or real(path)
    )
    monkeypatch.setattr(sampling, "_MAX_FOLDERS", 10)
    monkeypatch.setattr(sampling, "MAX_FILES", 5)
    assert detected(tmp_path / "c") == "class-folders"
    assert len(opened) == 45


def test_links_in_circles_and_pipes(make_images):
    corpus = make_images(3)
    (corpus / "again").symlink_to(corpus, target_is_directory=True)
    os.mkfifo(corpus / "class0" / "pipe")
    assert detected(corpus) == "class-folders"


def test_a_shard_set_and_a_folder_of_them(make_images, build, tmp_path, records):
    build(make_images(6), "sets/one")
    (tmp_path / "sets").mkdir(exist_ok=True)
    assert detected(tmp_path / "sets" / "one") == "tfrecord"
    assert detected(tmp_path / "sets") == "tfrecord"
    assert len(records(tmp_path / "sets")) == 6


def test_an_archive_among_the_files_of_a_pattern_is_rejected(make_images, records):
    """A named archive is meant to be read; one of many files that a pattern found is not."""
    corpus = make_images(40, classes=1) / "class0"
    zip_of(corpus / "odd.zip", {"a/1.jpg": b"x"})
    job = resolve_options(ImageOptions(str(corpus / "*"), "out", no_labels=True))
    assert job.source == "class-folders"
    assert "40 image, 1 zip: --source class-folders is used" in job.notes[0]
    assert len(records(str(corpus / "*"), no_labels=True)) == 41
