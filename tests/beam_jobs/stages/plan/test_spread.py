"""A build that is planned in rounds has the same bytes as one that one worker plans."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_jobs import bounds
from beam_jobs.options import ImageOptions, RecordOptions, TextOptions
from beam_jobs.run import preprocess
from shard_format import InputError, load_manifest, naming, verify
from tests.beam_jobs.records import programs
from tests.beam_jobs.stages.merge.builds import FORCED, Build
from tests.beam_jobs.test_bounds import built, documents, images
from tests.beam_jobs.test_same_bytes import OPTIONS, TEXT_VARIANTS, VARIANTS, write_questions


@pytest.fixture(scope="module")
def golden(repository):
    return json.loads((repository / "tests" / "golden" / "v2" / "root_hash.json").read_text())


@pytest.fixture(scope="module")
def questions(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions") / "corpus"
    return write_questions(repository / "samples" / "banking", folder)


# Variants with tests of their own below.
AT_ONCE = {"near-kept", "text-parts"}
NEAR = {"near", "conflicts-dropped", "text-near"}


def spread_first(variants):
    """The variants that are planned in rounds; most of them as proofs."""
    always = {"stratified", "oversampled", "text-given-splits"}
    return [
        pytest.param(name, marks=() if name in always else pytest.mark.proof)
        for name in variants
        if name not in AT_ONCE | NEAR
    ]


@pytest.fixture
def lowered_near(monkeypatch):
    """The same of what near duplicates take; a file for each 7 rows would take minutes."""
    for name in ("PLANNED_ROWS", "MOST_PARTITION_ROWS", "WAITING_ROWS", "LEAST_PARTITION_ROWS"):
        monkeypatch.setattr(bounds, name, 60)
    for name in ("RECEIVED_SHINGLES", "VERIFIED_SHINGLES", "EXCHANGED_BYTES", "TABLE_ENTRIES"):
        monkeypatch.setattr(bounds, name, 1000)
    for name in ("RECEIVED_CANDIDATES", "FETCHED_PAIRS", "COMPARED_ENTRIES", "LEFT_EDGES"):
        monkeypatch.setattr(bounds, name, 5)


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


@pytest.mark.usefixtures("lowered")
def test_classes_of_the_objects_in_images(spread, repository, tmp_path):
    """A record counts for its rarest class of the whole corpus, which no range knows."""
    photos = repository / "samples" / "objects"
    options = ImageOptions(
        (str(photos / "photos"),),
        str(tmp_path / "set"),
        annotations=str(photos / "instances.json"),
        resize="shorter:64",
        stratify=True,
        balance="oversample",
        unit_size="64KiB",
        no_report=True,
    )
    expected = preprocess(options).manifest
    assert expected.ledger.repeated
    shutil.rmtree(options.out)
    done = spread(3)
    assert preprocess(options).manifest.root_hash == expected.root_hash
    assert len(done) % 3 == 0 and len(done) // 3 >= 8


@pytest.mark.usefixtures("lowered")
def test_groups_that_a_program_names(spread, tmp_path):
    """Without --group-by, a record of a program may have the key."""
    options = RecordOptions(
        out=str(tmp_path / "set"),
        items=programs.keys,
        read=programs.keyed,
        schema="value:int64,at:int64",
        workers=1,  # others are processes, whose tasks are not counted here
        split="train=0.5,test=0.5",
        stratify=True,
        no_report=True,
    )
    expected = preprocess(options).manifest.root_hash
    shutil.rmtree(options.out)
    done = spread(3)
    assert preprocess(options).manifest.root_hash == expected
    assert len(done) // 3 >= 8


@pytest.mark.parametrize("name", ["text-parts"])
def test_what_one_worker_plans(name, spread, questions, golden, tmp_path):
    done = spread(3)
    assert _texts(name, questions, tmp_path / "set") == golden[name]
    assert not done


@pytest.mark.usefixtures("lowered_near")
@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("near", 40),
        ("text-near", 3),
        pytest.param("near", 3, marks=pytest.mark.proof),
        pytest.param("conflicts-dropped", 3, marks=pytest.mark.proof),
        pytest.param("text-near", 40, marks=pytest.mark.proof),
    ],
)
def test_golden_sets_with_near_duplicates(
    name, ranges, spread, samples, questions, golden, tmp_path
):
    done = spread(ranges)
    if name in TEXT_VARIANTS:
        assert _texts(name, questions, tmp_path / "set") == golden[name]
    else:
        options = OPTIONS | VARIANTS[name] | {"unit_size": "64KiB", "no_report": True}
        report = preprocess(ImageOptions((str(samples),), str(tmp_path / "set"), **options))
        assert report.manifest.root_hash == golden[name]
    assert len(done) % ranges == 0 and len(done) // ranges > 20


@pytest.mark.usefixtures("lowered_near")
@pytest.mark.parametrize(
    ("make", "ranges"),
    [
        (documents, 3),
        (images, 2),
        pytest.param(documents, 40, marks=pytest.mark.proof),
        pytest.param(images, 40, marks=pytest.mark.proof),
    ],
)
def test_near_duplicates_by_any_number_of_ranges(make, ranges, spread, tmp_path):
    """Equal, flat, exactly equal and similar ones; every file is the same."""
    options = make(tmp_path)
    if make is documents:
        options = dataclasses.replace(options, dedup_parts="off")
    expected = built(options)
    shutil.rmtree(options.out)
    done = spread(ranges)
    assert built(options) == expected
    assert len(done) % ranges == 0 and len(done) // ranges > 20


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
    for original in originals[2:4]:  # nearly equal ones of each
        changed = corpus / "class2" / kind.file(f"near-{original.stem}")
        if kind.name == "image":
            Image.open(original).save(changed, quality=70)
        else:
            changed.write_text(original.read_text() + "\nAnd a word more.")
    return corpus


class Killed(BaseException):
    """Not an Exception: nothing may catch it, as nothing can catch SIGKILL."""


@pytest.mark.parametrize(
    ("kind", "every", "dedup"),
    [
        ("image", 13, "exact"),
        ("image", 61, "near"),
        pytest.param("image", 1, "near", marks=pytest.mark.proof),
        pytest.param("text", 1, "near", marks=pytest.mark.proof),
    ],
    indirect=["kind"],
)
def test_a_crash_before_any_rename_of_planning(kind, every, dedup, build, tmp_path):
    """The build begins again as another range count may have it, and ends with the same set."""
    corpus = corpus_of(kind)
    job = JOB | {"dedup": dedup}
    expected = build(corpus, "whole", **job).manifest.root_hash
    kinds = pq.read_table(tmp_path / "whole" / "duplicates.parquet")["kind"].to_pylist()
    assert set(kinds) == {"exact", dedup}
    out, real, crashes = tmp_path / "set", os.replace, 0
    options = kind.options(corpus, out, **job)
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
    ("kind", "every", "dedup"),
    [
        ("text", 1, "exact"),
        ("image", 9, "near"),
        pytest.param("image", 1, "near", marks=pytest.mark.proof),
        pytest.param("text", 1, "near", marks=pytest.mark.proof),
    ],
    indirect=["kind"],
)
def test_damage_between_any_two_steps_of_planning(kind, every, dedup, build, tmp_path):
    """A byte of every file of the plan changes: an error that says so, or the same set."""
    corpus = corpus_of(kind)
    job = JOB | {"dedup": dedup}
    expected = build(corpus, "whole", **job).manifest.root_hash
    kinds = pq.read_table(tmp_path / "whole" / "duplicates.parquet")["kind"].to_pylist()
    assert set(kinds) == {"exact", dedup}
    out = tmp_path / "set"
    options = kind.options(corpus, out, **job)
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
        steps += every
    assert errors * every == steps > 18
    assert verify(out)[1] == []
