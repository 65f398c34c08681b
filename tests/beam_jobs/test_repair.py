"""Repair of damaged sets: the same bytes again, or the names of the records that are lost."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from shard_format import DamageError, load_manifest, naming, open_index, verify, verify_set
from tests.fixtures.command_line import REPOSITORY
from tests.fixtures.damage import FAULTS, files_of, job, make_corpus, put_fault


@pytest.fixture
def copy(built, tmp_path):
    """A copy of the set, to be damaged."""
    shutil.copytree(built / "set", tmp_path / "set")
    return tmp_path / "set"


def contents(directory: Path) -> dict[str, bytes]:
    """All files but build.json, whose times differ, the report, and what people may edit."""
    own = {naming.BUILD, naming.REPORT, naming.CARD}
    return {
        name: (directory / name).read_bytes() for name in files_of(directory) if name not in own
    }


def flip(directory: Path, split: str = "train", row: int = 3) -> tuple[str, str]:
    """Flips a bit of a record; returns its shard and its id."""
    record = open_index(directory / naming.index_file(split)).slice(row, 1).to_pylist()[0]
    file = load_manifest(directory).splits[split].shards[record["shard"]].file
    data = bytearray((directory / file).read_bytes())
    data[record["offset"] + record["length"] // 2] ^= 8
    (directory / file).write_bytes(data)
    return file, record["record_id"]


def _repair_all(built: Path, work: Path, names: list[str], seeds: range) -> None:
    for seed in seeds:
        name = names[seed % len(names)]
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(built / "set", work)
        faults = put_fault(name, work, built / "other", random.Random(seed))
        if faults is None or naming.BUILD in faults:
            continue  # without build.json nothing says how the set was built
        done = repair(work, delete_extra=True)
        assert (done.left, done.lost) == ([], []), f"{name}, seed {seed}: {done.reason}"
        assert contents(work) == contents(built / "set"), f"{name}, seed {seed}"
        assert verify(work)[1] == []


def test_damage_of_each_source_is_repaired(built, tmp_path):
    _repair_all(built, tmp_path / "set", ["swap", "truncate", "extra-file"], range(3))


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(FAULTS))
def test_seeded_faults_are_repaired(built, tmp_path, name):
    _repair_all(built, tmp_path / "set", [name], range(5))


def test_an_intact_set_is_left_alone(copy):
    before = {name: (copy / name).stat().st_mtime_ns for name in files_of(copy)}
    done = repair(copy)
    assert (done.repaired, done.lost, done.left) == ([], [], [])
    assert before == {name: (copy / name).stat().st_mtime_ns for name in files_of(copy)}


def test_only_damaged_files_are_written(built, copy):
    before = {name: (copy / name).stat().st_mtime_ns for name in files_of(copy)}
    file, _ = flip(copy)
    assert repair(copy).repaired == [file]
    after = {name: (copy / name).stat().st_mtime_ns for name in files_of(copy)}
    assert {name for name in after if after[name] != before[name]} == {file}
    assert contents(copy) == contents(built / "set")


def test_a_folder_in_place_of_any_file_is_replaced(built, copy):
    # Without build.json nothing says how the set was built.
    for name in sorted({*files_of(copy)} - {naming.MANIFEST, naming.BUILD}):
        (copy / name).unlink()
        (copy / name).mkdir()
        done = repair(copy)
        assert (done.left, done.lost) == ([], []), f"{name}: {done.reason}"
        assert (copy / name).is_file(), name
    assert contents(copy) == contents(built / "set")


def test_a_lost_source_costs_only_its_record(built, copy, tmp_path):
    """Sources of whole records may be gone; those of others must be there."""
    file, lost = flip(copy)
    _, other = flip(copy, row=4)
    corpus = tmp_path / "moved"
    shutil.copytree(built / "corpus", corpus)
    for path in sorted(corpus.rglob("*")):
        if path.is_file() and path.relative_to(corpus).as_posix() != other:
            path.unlink()
    before = contents(copy)
    done = repair(copy, [str(corpus)])
    assert [(one.file, one.record_id) for one in done.lost] == [(file, lost)]
    assert "no source has it" in done.lost[0].why
    assert contents(copy) == before
    shutil.copy(built / "corpus" / lost, corpus / lost)
    assert repair(copy, [str(corpus)]).left == []
    assert contents(copy) == contents(built / "set")


def test_a_changed_source_is_named(built, copy, tmp_path):
    _, lost = flip(copy)
    corpus = tmp_path / "moved"
    shutil.copytree(built / "corpus", corpus)
    others = [path for path in (corpus / lost).parent.iterdir() if path.name != Path(lost).name]
    shutil.copy(sorted(others)[0], corpus / lost)
    done = repair(copy, [str(corpus)])
    assert [one.record_id for one in done.lost] == [lost]
    assert "other bytes" in done.lost[0].why


def test_without_sources_every_lost_record_is_named(copy, tmp_path):
    file, lost = flip(copy)
    build = json.loads((copy / naming.BUILD).read_text())
    build["options"]["sources"] = [str(tmp_path / "gone")]
    (copy / naming.BUILD).write_text(json.dumps({"options": build["options"]}))
    done = repair(copy)
    assert [(one.file, one.record_id) for one in done.lost] == [(file, lost)]
    assert str(tmp_path / "gone") in done.lost[0].why


def test_staged_units_are_enough(tmp_path):
    """The sources are gone, and --staging still has the units."""
    corpus = make_corpus("image", tmp_path / "corpus")
    options = job("image", corpus, tmp_path / "set", staging=str(tmp_path / "staging"))
    preprocess(options)
    whole = contents(tmp_path / "set")
    file, _ = flip(tmp_path / "set")
    shutil.rmtree(corpus)
    done = repair(tmp_path / "set")
    assert (done.repaired, done.left) == ([file], [])
    assert contents(tmp_path / "set") == whole


def test_a_manifest_without_its_build_cannot_be_had(copy):
    (copy / naming.MANIFEST).write_text("{")
    (copy / naming.BUILD).write_text("{")
    before = contents(copy)
    with pytest.raises(DamageError, match=r"build\.json is damaged too"):
        repair(copy)
    assert contents(copy) == before


@pytest.mark.proof
def test_a_manifest_of_changed_sources_cannot_be_had(built, copy, tmp_path):
    corpus = tmp_path / "moved"
    shutil.copytree(built / "corpus", corpus)
    sorted(corpus.rglob("*.*"))[0].unlink()
    (copy / naming.MANIFEST).unlink()
    with pytest.raises(DamageError, match="cannot be had"):
        repair(copy, [str(corpus)])
    assert not (copy / naming.MANIFEST).exists()
    repair(copy)
    assert contents(copy) == contents(built / "set")


def test_the_command(built, copy, shardmill, tmp_path):
    file, lost = flip(copy)
    done = shardmill("repair", copy, built / "corpus", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["repaired"] == [file] and report["intact"]
    flip(copy)
    (tmp_path / "empty").mkdir()
    done = shardmill("repair", copy, tmp_path / "empty")
    assert done.returncode == 4, done.stderr
    assert repr(lost) in done.stdout and "Traceback" not in done.stderr
    assert shardmill("repair", copy, tmp_path / "none").returncode == 2
    assert shardmill("repair", tmp_path / "empty").returncode == 3


@pytest.mark.proof
@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5, 6.0])
def test_a_killed_repair_is_completed(built, copy, seconds):
    names = [name for name in files_of(copy) if naming.parse_shard_file(name)]
    put_fault("swap", copy, built / "other", random.Random(0))
    (copy / naming.index_file("train")).unlink()
    flip(copy, "test", row=1)
    damaged = {damage.file for damage in verify_set(copy).damages}
    command = [sys.executable, "-m", "cli.main", "repair", str(copy)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert {damage.file for damage in verify_set(copy).damages} <= damaged, names
    assert repair(copy).left == []
    assert contents(copy) == contents(built / "set")
    assert not (copy / naming.WORK_DIR).exists()


def _build(tmp_path: Path, corpus: Path, **options: object) -> Path:
    from beam_jobs.options import TextOptions

    values = {"workers": 1, "num_shards": 2, "split": "train=0.8,test=0.2", "no_report": True}
    made = TextOptions(sources=(str(corpus),), out=str(tmp_path / "set"), **values | options)  # type: ignore[arg-type]
    preprocess(made)
    return tmp_path / "set"


def _lines(tmp_path: Path, kind: str) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = [
        {"text": f"Line {number} of some text", "label": f"c{number % 3}", "number": number}
        for number in range(60)
    ]
    if kind == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        lines = [f"{row['text']},{row['label']}\n" for row in rows]
        (folder / "a.csv").write_text("text,label\n" + "".join(lines))
    elif kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet", row_group_size=20)
    else:
        import tarfile

        for number, row in enumerate(rows):
            path = tmp_path / row["label"] / f"{number}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(row["text"])
        with tarfile.open(folder / "a.tar", "w") as archive:
            for name in ("c0", "c1", "c2"):
                archive.add(tmp_path / name, name)
    return folder


@pytest.mark.parametrize(
    "kind",
    ["jsonl", *(pytest.param(one, marks=pytest.mark.proof) for one in ("csv", "parquet", "tar"))],
)
def test_records_of_files_with_many(tmp_path, kind):
    options = {} if kind == "tar" else {"label_column": "label"}
    directory = _build(tmp_path, _lines(tmp_path, kind), **options)
    whole = contents(directory)
    file, _ = flip(directory)
    done = repair(directory)
    assert (done.repaired, done.left) == ([file], []), done
    assert contents(directory) == whole


@pytest.mark.proof
@pytest.mark.parametrize(
    "options",
    [
        {"pack": 64, "train_tokenizer": "bpe:300"},
        {"dedup_parts": "lines"},
        {"keep_columns": "number:int64"},
        {"multi_label": True},
        {"no_labels": True},
    ],
)
def test_every_kind_of_example(tmp_path, options):
    values = {} if options.get("no_labels") else {"label_column": "label"}
    directory = _build(tmp_path, _lines(tmp_path, "jsonl"), **values | options)
    whole = contents(directory)
    flip(directory, row=1)
    assert repair(directory).left == []
    assert contents(directory) == whole


@pytest.mark.proof
@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "raw"},
        {"encoding": "png"},
        {"quality": "keep", "resize": "none"},
        {"dedup": "near", "duplicates": "keep"},
    ],
)
def test_every_kind_of_image(tmp_path, options):
    corpus = make_corpus("image", tmp_path / "corpus")
    made = job("image", corpus, tmp_path / "set", **options)
    preprocess(dataclasses.replace(made, no_report=True))  # type: ignore[type-var]
    whole = contents(tmp_path / "set")
    flip(tmp_path / "set")
    assert repair(tmp_path / "set").left == []
    assert contents(tmp_path / "set") == whole
