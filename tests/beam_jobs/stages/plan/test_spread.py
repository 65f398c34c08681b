"""A build that is planned in rounds has the same bytes as one that one worker plans."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from beam_jobs import bounds
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.stages.plan.spread import rounds
from shard_format import InputError, load_manifest, naming, verify
from tests.beam_jobs.stages.merge.builds import FORCED, Build
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


def spread_first(variants):
    """The variants that are planned in rounds; most of them as proofs."""
    always = {"stratified", "oversampled", "text-given-splits"}
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


JOB = {
    "unit_size": "2KiB",
    "num_shards": 3,
    "split": "train=0.7,test=0.3",
    "stratify": True,
    "balance": "oversample",
    "no_report": True,
}


def corpus_of(kind):
    corpus = kind.make(12)
    originals = [path for path in sorted((corpus / "class1").iterdir()) if path.is_file()]
    for number, original in enumerate(originals[:3]):
        (corpus / "class0" / kind.file(f"copy{number}")).write_bytes(original.read_bytes())
    return corpus


class Killed(BaseException):
    """Not an Exception: nothing may catch it, as nothing can catch SIGKILL."""


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("image", 13),
        pytest.param("image", 1, marks=pytest.mark.proof),
        pytest.param("text", 1, marks=pytest.mark.proof),
    ],
    indirect=["kind"],
)
def test_a_crash_before_any_rename_of_planning(kind, every, build, tmp_path):
    """The build begins again as another range count may have it, and ends with the same set."""
    corpus = corpus_of(kind)
    expected = build(corpus, "whole", **JOB).manifest.root_hash
    out, real, crashes = tmp_path / "set", os.replace, 0
    options = kind.options(corpus, out, **JOB)
    while True:
        calls = 0

        def replace(temporary, final, stop=crashes):
            nonlocal calls
            if "/plan/" in str(final):
                if calls == stop:
                    raise Killed
                calls += 1
            real(temporary, final)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", replace)
            try:
                Build(options, FORCED._replace(ranges=3)).run()
            except Killed:
                pass
            else:
                break
        Build(options, FORCED._replace(ranges=2 + crashes % 2)).run()
        assert load_manifest(out).root_hash == expected
        shutil.rmtree(out)
        crashes += every
    assert calls > 60


@pytest.mark.parametrize(
    "kind", [pytest.param("image", marks=pytest.mark.proof), "text"], indirect=True
)
def test_damage_between_any_two_steps_of_planning(kind, build, tmp_path):
    """A byte of every file of the plan changes: an error that says so, or the same set."""
    corpus = corpus_of(kind)
    expected = build(corpus, "whole", **JOB).manifest.root_hash
    out = tmp_path / "set"
    options = kind.options(corpus, out, **JOB)
    merging = FORCED._replace(ranges=2)
    steps, errors = 0, 0

    def damaging(at):
        calls = 0

        def between():
            nonlocal calls
            if calls == at:
                for path in (out / naming.WORK_DIR / "plan").iterdir():
                    data = bytearray(path.read_bytes() or b"?")
                    data[len(data) // 2] ^= 0x11
                    path.write_bytes(data)
            calls += 1

        return between

    while True:
        one = Build(options, merging)
        one.stage()
        between = damaging(steps)
        try:
            plan = one.plan(between)
        except InputError as error:
            assert "damaged" in str(error) and "un the same command again" in str(error)
            errors += 1
        else:
            one.commit(one.shard(plan, one.merge(plan)))
            assert load_manifest(out).root_hash == expected
            break
        steps += 1
    assert errors == steps > 18
    assert verify(out)[1] == []
