"""A build that is planned in rounds has the same bytes as one that one worker plans."""

from __future__ import annotations

import json

import pytest

from beam_jobs import bounds
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.stages.plan.spread import rounds
from shard_format import naming, verify
from tests.beam_jobs.stages.merge.builds import FORCED
from tests.beam_jobs.test_same_bytes import OPTIONS, TEXT_VARIANTS, VARIANTS, write_questions
from tests.fixtures.proofs import proofs


@pytest.fixture(scope="module")
def golden(repository):
    return json.loads((repository / "tests" / "golden" / "v2" / "root_hash.json").read_text())


@pytest.fixture(scope="module")
def questions(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions") / "corpus"
    return write_questions(repository / "samples" / "banking", folder)


@pytest.fixture
def spread(monkeypatch):
    """Has every build in this process plan in rounds; the tasks that were done, by round."""
    done, do = [], rounds.do_round

    def start(ranges):
        merging = FORCED._replace(ranges=ranges)
        monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: merging)
        monkeypatch.setattr(
            "beam_jobs.pipeline.do_round", lambda task, *job: done.append(task) or do(task, *job)
        )
        return done

    return start


# What one worker plans, and what the small bounds take too long for.
AT_ONCE = {"near", "near-kept", "conflicts-dropped", "text-near", "text-parts"}
AT_ONCE |= {"text-tokens", "text-wordpiece", "text-unigram", "text-packed", "text-best-fit"}


def spread_first(variants):
    """The variants that are planned in rounds; most of them as proofs."""
    always = {"stratified", "oversampled", "undersampled", "text", "text-given-splits"}
    return [
        pytest.param(name, marks=() if name in always else pytest.mark.proof)
        for name in variants
        if name not in AT_ONCE
    ]


@pytest.fixture
def lowered(monkeypatch):
    """Every task has several parts of everything."""
    for name in ("PLANNED_ROWS", "MOST_PARTITION_ROWS", "WAITING_ROWS"):
        monkeypatch.setattr(bounds, name, 7)


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", spread_first(VARIANTS))
def test_images(name, spread, samples, golden, tmp_path):
    done = spread(3)
    options = OPTIONS | VARIANTS[name] | {"unit_size": "64KiB", "no_report": True}
    report = preprocess(ImageOptions((str(samples),), str(tmp_path / "set"), **options))
    assert report.manifest.root_hash == golden[name]
    assert len(done) % 3 == 0 and len(done) // 3 >= 8
    assert verify(tmp_path / "set")[1] == []
    assert not (tmp_path / "set" / naming.WORK_DIR).exists()


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", spread_first(TEXT_VARIANTS))
def test_documents(name, spread, questions, golden, tmp_path):
    done = spread(40)  # more than there are units
    assert _texts(name, questions, tmp_path / "set") == golden[name]
    assert len(done) % 40 == 0 and len(done) // 40 >= 8


@pytest.mark.parametrize("name", ["text-near", *proofs(*sorted(AT_ONCE & TEXT_VARIANTS.keys()))])
def test_what_one_worker_plans(name, spread, questions, golden, tmp_path):
    done = spread(3)
    assert _texts(name, questions, tmp_path / "set") == golden[name]
    assert not done


def _texts(name, source, out):
    options = {"label_column": "category", "num_shards": 3, "split": "train=0.9,test=0.1"}
    options |= TEXT_VARIANTS[name] | {"unit_size": "4KiB", "no_report": True}
    if "no_labels" in options:
        del options["label_column"]
    return preprocess(TextOptions((str(source),), str(out), **options)).manifest.root_hash
