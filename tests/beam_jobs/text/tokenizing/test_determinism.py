"""The same bytes on any number of workers and units, after a kill, and only then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

JOBS = {
    "tokens": {"train_tokenizer": "bpe:400"},
    "concat": {"train_tokenizer": "wordpiece:600", "pack": 64, "num_shards": 3},
    "best-fit": {"train_tokenizer": "unigram:400", "pack": 64, "packing": "best-fit"},
}


@pytest.mark.parametrize("job", JOBS)
def test_workers_and_units_change_nothing(build_text, tmp_path, job):
    options = {**JOBS[job], "tokenizer_sample": "20KiB"}
    first = build_text("first", **options)
    assert build_text("workers", workers=2, **options).root_hash == first.root_hash
    assert build_text("units", unit_size="2KiB", **options).root_hash == first.root_hash
    units = json.loads((tmp_path / "units" / "build.json").read_text())["units"]
    assert units > 1
    (name,) = {"tokenizer.json", "tokenizer.model"} & set(first.files)
    assert first.files[name]["sha256"] == first.config["tokenizer"]


def test_the_seed_shuffles_and_trains_the_same(build_text):
    options = {"train_tokenizer": "bpe:400", "tokenizer_sample": "10KiB"}
    first, other = (build_text(str(seed), seed=seed, **options) for seed in (0, 1))
    assert first.config["tokenizer"] == other.config["tokenizer"]
    assert first.root_hash != other.root_hash


def test_the_training_split_alone_is_learned_from(build_text, tmp_path):
    import shutil

    source = tmp_path / "split"
    for split, words in {"train": "alpha beta", "test": "gamma delta"}.items():
        folder = source / split / "x"
        folder.mkdir(parents=True)
        for number in range(30):
            (folder / f"{number}.txt").write_text(f"{words} " * (number + 5))
    options = {"split": "folders", "label_column": None, "train_tokenizer": "bpe:300"}
    first = build_text("first", source, **options)
    vocabulary = json.loads((tmp_path / "first" / "tokenizer.json").read_text())["model"]["vocab"]
    assert "alpha" in vocabulary
    assert "gamma" not in vocabulary
    shutil.rmtree(source / "test")
    assert build_text("second", source, **options).config["tokenizer"] == first.config["tokenizer"]


def test_a_larger_sample_trains_another_tokenizer(build_text):
    small, large = (
        build_text(size, train_tokenizer="bpe:500", tokenizer_sample=size)
        for size in ("2KiB", "1MiB")
    )
    assert small.config["tokenizer"] != large.config["tokenizer"]


def shards_of(options):
    """A job whose stages up to the plan are done, and its shards to write."""
    from beam_jobs.job_context import JobContext
    from beam_jobs.stages.list import list_corpus
    from beam_jobs.stages.plan import plan_shards
    from beam_jobs.stages.stage import stage_unit
    from beam_jobs.staging.units import read_units

    job = JobContext.create(options)
    job.workspace.create()
    list_corpus(job)
    done = [stage_unit(unit, job) for unit in read_units(job.workspace)]
    return job, plan_shards(done, job)


@pytest.mark.parametrize(
    "changed",
    [
        {"pack": 32},
        {"packing": "best-fit"},
        {"train_tokenizer": "bpe:300"},
        {"tokenizer_sample": "1KiB"},
        {"train_tokenizer": None, "pack": None},
    ],
)
def test_a_plan_with_other_options_finds_no_shard_done(corpus, tmp_path, changed):
    from beam_jobs.options import TextOptions
    from beam_jobs.stages.shard import write_shard

    given = {"train_tokenizer": "bpe:400", "pack": 64, "no_labels": True}
    before, after = (
        TextOptions((str(corpus),), str(tmp_path / "set"), **given | more) for more in ({}, changed)
    )
    for options, reused in ((before, False), (before, True), (after, False), (before, False)):
        job, specs = shards_of(options)
        results = [write_shard(spec, job) for spec in specs]
        assert [result.reused for result in results] == [reused] * len(specs)


def test_a_trained_tokenizer_is_used_again(corpus, tmp_path, monkeypatch):
    from beam_jobs.options import TextOptions
    from beam_jobs.text.tokenizers import training

    given = {"train_tokenizer": "bpe:400", "label_column": "label"}
    options = TextOptions((str(corpus),), str(tmp_path / "set"), **given)
    job, first = shards_of(options)
    with monkeypatch.context() as patched:
        patched.setitem(training.TRAINERS, "bpe", None)
        assert shards_of(options)[1] == first
    (job.workspace.shared / "tokenizer").write_bytes(b"{}")  # damaged: trained again
    assert shards_of(options)[1] == first


@pytest.mark.proof
def test_a_build_that_was_killed_goes_on(corpus, tmp_path, build_text, repository):
    options = ["--train-tokenizer", "bpe:400", "--pack", "64", "--no-report", "--workers", "1"]
    options += ["--label-column", "label"]
    command = [*(sys.executable, "-m", "cli.main", "preprocess", "text", corpus), *options]
    command += ["--num-shards", "9", "--out", tmp_path / "killed"]
    expected = build_text("whole", train_tokenizer="bpe:400", pack=64, num_shards=9).root_hash
    trained = tmp_path / "killed" / ".shardmill" / "shared" / "tokenizer"
    with subprocess.Popen(
        [*map(str, command)], cwd=repository, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while not trained.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
    again = build_text("killed", train_tokenizer="bpe:400", pack=64, num_shards=9)
    assert again.root_hash == expected
