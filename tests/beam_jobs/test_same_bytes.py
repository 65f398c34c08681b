"""The same input and options give the same root hash, however the work is done."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil

import pytest

from tests.fixtures.proofs import proof, proofs

# The filter is that of all sets before there was a choice.
OPTIONS = {
    "resize": "shorter:128",
    "enlarge": True,
    "resize_filter": "area",
    "num_shards": 4,
    "name": "clothing",
}


@pytest.fixture(scope="module")
def golden(repository):
    """Of builds since the index has pixel sums; golden/v1 holds a set from before.

    Every image was scaled to what --resize asks then, as it is with --enlarge.
    """
    return json.loads((repository / "tests" / "golden" / "v2" / "root_hash.json").read_text())


@pytest.fixture
def root_hash(build, samples):
    def run(out, source=samples, **options):
        return build(source, out, **(OPTIONS | options)).manifest.root_hash

    return run


@pytest.mark.parametrize("workers", [*proofs(1, 4), 2])
def test_any_number_of_workers(root_hash, golden, workers):
    assert root_hash("set", workers=workers) == golden["samples/clothing"]


@pytest.mark.parametrize("unit_size", ["100KiB", *proofs("1MiB")])
def test_any_size_of_unit(root_hash, golden, unit_size):
    assert root_hash("set", unit_size=unit_size) == golden["samples/clothing"]


# Every rule of planning and cleaning that looks at more than one record, and every encoding.
VARIANTS = {
    "near": {"dedup": "near", "near_threshold": 0.6},
    "near-kept": {
        "dedup": "near",
        "near_threshold": 0.6,
        "duplicates": "keep",
        "split": "train=0.6,test=0.4",
    },
    "conflicts-dropped": {"dedup": "near", "near_threshold": 0.6, "conflicts": "drop"},
    "stratified": {"stratify": True, "split": "train=0.7,validation=0.2,test=0.1"},
    "oversampled": {"balance": "oversample", "split": "train=0.5,test=0.5"},
    "undersampled": {"balance": "undersample"},
    "keep": {"quality": "keep", "resize": "none", "enlarge": False},
    "png": {"encoding": "png"},
    "webp": {"encoding": "webp"},
    "raw": {"encoding": "raw", "resize": "crop:48x48"},
    "filtered": {"min_side": 100, "max_aspect": 2.0, "blank": 20.0, "lenient": True},
    "unlabelled": {"no_labels": True},
}


# (workers, bytes of a unit)
WORK = ((1, "64KiB"), (2, "1MiB"))


# Each of them plans or writes in a way of its own; the other variants, and other work, are proofs.
ALWAYS = {"near", "stratified", "oversampled", "keep", "webp"}
ALWAYS |= {"text-near", "text-parts", "text-stratified", "text-given-splits", "text-web"}
ALWAYS |= {"text-tokens", "text-packed", "text-kept", "text-kept-in-index"}


def on_any_units(variants):
    """(variant, work) for each of both."""
    return [
        pytest.param(name, *work, marks=() if name in ALWAYS and number % 2 == turn else proof)
        for number, name in enumerate(variants)
        for turn, work in enumerate(WORK)
    ]


@pytest.mark.parametrize(("name", "workers", "unit_size"), on_any_units(VARIANTS))
def test_every_option_on_any_units(root_hash, golden, name, workers, unit_size):
    options = VARIANTS[name]
    assert root_hash("set", workers=workers, unit_size=unit_size, **options) == golden[name]


# Sizes at which some of the samples stay smaller, and others do not.
OWN_SIZE = {
    "shorter": {"resize": "shorter:401"},
    "fit": {"resize": "fit:420x540"},
    "crop": {"resize": "crop:380x500"},
    "pad": {"resize": "pad:450x540"},
    "shrunk": {"resize": "shorter:128"},
    "keep": {"resize": "fit:450x540", "quality": "keep"},
}


@pytest.mark.parametrize("name", OWN_SIZE)
def test_small_images_keep_their_size(root_hash, repository, samples, tmp_path, name):
    golden = json.loads((repository / "tests/golden/v3/root_hash.json").read_text())
    for folder in ("hat", "shorts"):
        shutil.copytree(samples / folder, tmp_path / "some" / folder)
    options = OWN_SIZE[name] | {"enlarge": False, "num_shards": 1}
    assert root_hash("set", tmp_path / "some", **options) == golden[name]


# The same of documents; tokenizers are trained, so their bytes count too.
KEPT = {"keep_columns": "category", "no_labels": True, "encoding": "auto"}
TEXT_VARIANTS = {
    "text": {},
    "text-near": {"dedup": "near", "near_threshold": 0.5},
    "text-parts": {"dedup_parts": "lines"},
    "text-stratified": {"stratify": True, "split": "train=0.7,validation=0.2,test=0.1"},
    "text-oversampled": {"balance": "oversample", "split": "train=0.5,test=0.5"},
    "text-given-splits": {"split": "folders"},
    "text-web": {"clean": "web", "no_labels": True},
    "text-tokens": {"train_tokenizer": "bpe:600"},
    "text-wordpiece": {"train_tokenizer": "wordpiece:700"},
    "text-unigram": {"train_tokenizer": "unigram:600"},
    "text-packed": {"train_tokenizer": "bpe:600", "pack": 64},
    "text-best-fit": {"train_tokenizer": "bpe:600", "pack": 64, "packing": "best-fit"},
    # Of a set that was built before indexes had these columns, and of any since.
    "text-kept": KEPT | {"kept_in_index": False},
    "text-kept-in-index": KEPT,
}


def write_questions(source, folder):
    """The sample questions in a dozen files of JSON Lines; every third has the same last line."""
    for part in ("train", "test"):
        with (source / f"{part}.csv").open(encoding="utf-8", errors="replace", newline="") as file:
            rows = list(csv.DictReader(file))
        (folder / part).mkdir(parents=True)
        for number in range(6):
            with (folder / part / f"{number}.jsonl").open("w") as file:
                for row in rows[number::6]:
                    if len(row["text"]) % 3 == 0:
                        row["text"] += "\nSent from the telephone of a customer of the bank."
                    file.write(json.dumps(row) + "\n")
    (folder / "train" / "0.jsonl").open("a").write("no JSON\n")
    return folder


@pytest.fixture(scope="module")
def questions(repository, tmp_path_factory):
    return write_questions(
        repository / "samples" / "banking", tmp_path_factory.mktemp("questions") / "corpus"
    )


@pytest.mark.parametrize(("name", "workers", "unit_size"), on_any_units(TEXT_VARIANTS))
def test_every_option_of_documents_on_any_units(
    questions, golden, tmp_path, name, workers, unit_size
):
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    options = {"label_column": "category", "num_shards": 3, "no_report": True}
    options["split"] = "train=0.9,test=0.1"  # the corpus has folders of splits
    options |= TEXT_VARIANTS[name]
    if "no_labels" in options:
        del options["label_column"]
    out = str(tmp_path / "set")
    job = TextOptions((str(questions),), out, workers=workers, unit_size=unit_size, **options)
    assert preprocess(job).manifest.root_hash == golden[name]


def test_any_order_of_listing(root_hash, golden, monkeypatch):
    real = os.scandir

    class Shuffled:
        def __init__(self, path):
            with real(path) as entries:
                self._entries = list(entries)
            random.Random(3).shuffle(self._entries)

        def __enter__(self):
            return iter(self._entries)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("beam_jobs.corpus.discovery.os.scandir", Shuffled)
    assert root_hash("set") == golden["samples/clothing"]


def test_a_copy_elsewhere(root_hash, golden, samples, tmp_path):
    copy = tmp_path / "somewhere else"
    shutil.copytree(samples, copy)
    for file in copy.rglob("*.jpg"):
        os.utime(file, (1, 1))
    assert root_hash("set", source=copy) == golden["samples/clothing"]


@proof  # test_processes has a smaller one
def test_processes_and_threads(samples, tmp_path, golden):
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    options = ImageOptions((str(samples),), str(tmp_path / "set"), workers=2, **OPTIONS)
    report = preprocess(options, ["--direct_running_mode=multi_processing"])
    assert report.manifest.root_hash == golden["samples/clothing"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"quality": 91},
        *proofs({"split": "train=1"}, {"num_shards": 5}, {"name": "x"}, {"enlarge": False}),
        {"resize_filter": "sharp"},
    ],
)
def test_other_options_give_another_hash(root_hash, golden, change):
    assert root_hash("set", **change) != golden["samples/clothing"]


def test_the_manifest_tells_nothing_of_the_machine(root_hash, tmp_path, samples):
    root_hash("set")
    text = (tmp_path / "set" / "manifest.json").read_text()
    assert str(tmp_path) not in text
    assert str(samples) not in text
    assert os.uname().nodename not in text
