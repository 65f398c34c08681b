"""Refused records: listed, written out, and got in after all."""

from __future__ import annotations

import csv
import json
import shutil
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.corpus.replacements import original_path
from beam_jobs.quarantine import export, reasons, rejected_records, replay_options
from beam_jobs.run import preprocess
from shard_format import DamageError, InputError, load_manifest
from shard_format.verification import verify


@pytest.fixture
def damaged(kind, build, tmp_path):
    """(corpus with three bad files, what they should have been, set)."""
    corpus = kind.make(30, classes=3)
    good = {}
    for name in (
        kind.file("class0/003"),
        kind.file("class1/004"),
        kind.file("class2/005"),
    ):
        path = corpus / name
        good[name] = path.read_bytes()
        path.write_bytes(kind.damaged(good[name]) if "4" not in name else kind.worse)
    build(corpus, "set", num_shards=2)
    return corpus, good, tmp_path / "set"


def test_reasons_are_counted(kind, damaged):
    _, good, out = damaged
    by_key = {(one.stage, one.reason): one for one in reasons(out)}
    counts = {key: one.records for key, one in by_key.items()}
    assert counts == {kind.refused: 2, kind.refused_worse: 1}
    assert by_key[kind.refused].record_id == kind.file("class0/003")
    assert by_key[kind.refused_worse].bytes == len(kind.worse)
    ledger = load_manifest(out).ledger
    assert sum(counts.values()) == ledger.quarantined + ledger.filtered
    assert [record.record_id for record in rejected_records(out)] == sorted(good)


def test_export_writes_originals_and_a_table(damaged, tmp_path):
    corpus, good, out = damaged
    done = export(out, tmp_path / "refused")
    assert done == (3, 0, 0)
    with (tmp_path / "refused" / "quarantine.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert {row["record_id"] for row in rows} == set(good)
    for row in rows:
        original = (corpus / row["record_id"]).read_bytes()
        assert (tmp_path / "refused" / row["file"]).read_bytes() == original


def test_export_of_a_reason(kind, damaged, tmp_path):
    _, _, out = damaged
    assert export(out, tmp_path / "some", [kind.refused_worse[1]]).written == 1
    with pytest.raises(InputError, match=kind.refused[1]):
        export(out, tmp_path / "none", ["no-such"])
    with pytest.raises(InputError, match=r"is not empty\. Choose an empty or a new folder"):
        export(out, tmp_path / "some")


def _replay(out, folder=None, sources=(), **changes):
    changes |= {"out": str(out), "overwrite": True}
    return preprocess(replay_options(out, folder, sources, changes)).manifest


@pytest.mark.parametrize("with_staging", [False, True])
def test_a_replay_is_the_build_that_never_failed(kind, build, tmp_path, with_staging, damaged):
    corpus, good, out = damaged
    options = {"num_shards": 2}
    if with_staging:
        shutil.rmtree(out)
        options["staging"] = str(tmp_path / "staging")
        build(corpus, "set", **options)
    export(out, tmp_path / "refused")
    for name, data in good.items():
        (tmp_path / "refused" / "files" / name).write_bytes(data)
    replayed = _replay(out, tmp_path / "refused")
    assert replayed.ledger.quarantined == replayed.ledger.filtered == 0
    assert verify(out)[1] == []
    if with_staging:
        build_info = json.loads((out / "build.json").read_text())
        assert 0 < build_info["units_reused"] < build_info["units"] or build_info["units"] == 1

    for name, data in good.items():
        (corpus / name).write_bytes(data)
    assert build(corpus, "clean", num_shards=2).manifest.root_hash == replayed.root_hash


def test_replays_add_up(damaged, build, tmp_path):
    """Two files are repaired first, the last one later; what was repaired stays repaired."""
    corpus, good, out = damaged
    names = sorted(good)
    for turn, some in enumerate((names[:2], names[2:])):
        export(out, tmp_path / f"refused{turn}")
        for name in some:
            (tmp_path / f"refused{turn}" / "files" / name).write_bytes(good[name])
        replayed = _replay(out, tmp_path / f"refused{turn}")
    for name, data in good.items():
        (corpus / name).write_bytes(data)
    assert build(corpus, "clean", num_shards=2).manifest.root_hash == replayed.root_hash


def test_files_left_as_they_were_are_refused_as_before(damaged, tmp_path):
    _, _, out = damaged
    before = load_manifest(out).root_hash
    export(out, tmp_path / "refused")
    assert _replay(out, tmp_path / "refused").root_hash == before


def test_replay_with_other_options(make_images, build, tmp_path):
    corpus = make_images(12, classes=2)
    strict = build(corpus, "set", max_pixels=10).manifest.ledger
    assert strict.kept == 0
    replayed = _replay(tmp_path / "set", max_pixels=10**6)
    assert replayed.root_hash == build(corpus, "other", max_pixels=10**6).manifest.root_hash


def test_a_corpus_that_moved(damaged, tmp_path):
    corpus, _, out = damaged
    before = load_manifest(out).root_hash
    moved = tmp_path / "moved" / corpus.name
    moved.parent.mkdir()
    corpus.rename(moved)
    with pytest.raises(InputError, match="does not exist"):
        _replay(out)
    assert load_manifest(out).root_hash == before  # a replay that fails changes nothing
    assert _replay(out, sources=[str(moved)]).root_hash == before


def test_a_set_without_its_options(damaged):
    _, _, out = damaged
    (out / "build.json").unlink()
    with pytest.raises(InputError, match="has no options of the build"):
        replay_options(out, None, (), {"max_pixels": 5})


@given(st.text(st.sampled_from("/.%\0aé" + string.ascii_letters), max_size=12))
def test_no_original_leaves_its_folder(record_id):
    folder = Path("/folder")
    path = original_path(folder, record_id)
    assert path.is_relative_to(folder)
    assert ".." not in path.parts
    assert "\0" not in str(path)


@given(*[st.text(st.sampled_from("/.%2E5a"), max_size=6)] * 2)
def test_two_records_have_two_places(one, other):
    folder = Path("/folder")
    assert (original_path(folder, one) == original_path(folder, other)) == (one == other)


def test_long_names_are_cut_and_stay_apart():
    first, second = (original_path(Path("/f"), "x" * 300 + end) for end in "ab")
    assert first != second
    assert len(first.name.encode()) < 255


def test_a_folder_that_repairs_nothing_is_reported(damaged, tmp_path):
    _, _, out = damaged
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.jpg").write_bytes(b"x")
    before = load_manifest(out).root_hash
    with pytest.raises(InputError, match="has the path of a record id"):
        _replay(out, tmp_path / "elsewhere")
    assert load_manifest(out).root_hash == before


def test_balance_needs_something_to_train_on(make_images, build):
    with pytest.raises(InputError, match="needs a training split, and there are only test"):
        build(make_images(8), balance="undersample", split="test=1")


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"no Parquet")])
def test_a_damaged_quarantine_is_damage(damaged, tmp_path, harm):
    _, _, out = damaged
    harm(next((out / "quarantine").iterdir()))
    with pytest.raises(DamageError, match="shardmill verify"):
        reasons(out)
    with pytest.raises(DamageError, match="shardmill verify"):
        export(out, tmp_path / "refused")
