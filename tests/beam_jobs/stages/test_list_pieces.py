"""A corpus that is listed in pieces makes the set that it makes when it is listed at once."""

from __future__ import annotations

import dataclasses
import json
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.corpus.record import WHOLE_FILE, Locator, SourceItem
from beam_jobs.dry_run import dry_run
from beam_jobs.job_context import JobContext
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from beam_jobs.stages import list_pieces
from beam_jobs.stages.list import list_corpus, resolve_options
from beam_jobs.staging.listed_items import read_unit
from beam_jobs.staging.seen_items import item_identity
from beam_jobs.staging.units import listed_pieces, read_units
from foundation import storage
from shard_format import InputError, naming, verify

AGAIN = "the same command again"


@pytest.fixture
def lower(monkeypatch):
    """Has files of a certain weight be a piece."""
    return lambda files: monkeypatch.setattr(bounds, "LISTED_FILES", files)


@pytest.fixture
def texts(tmp_path):
    """Nested folders with hidden files, odd names and a large file of lines."""
    folder = tmp_path / "texts"
    for number in range(24):
        path = folder / f"class{number % 3}" / "/".join("deep"[: number % 4]) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Document {number} of {number * 7}.")
    (folder / ".hidden").write_text("no")
    (folder / "class1" / ".hidden").mkdir()
    (folder / "class1" / ".hidden" / "1.txt").write_text("no")
    (folder / "class2" / "caf\udce9 é.txt").write_text("An odd name.")
    lines = (json.dumps({"text": f"line {number} " + "x" * 900}) for number in range(3000))
    (folder / "class2" / "lines.jsonl").write_text("\n".join(lines))
    return folder


def text_job(sources, out, **options):
    options = {"unit_size": "64KiB", "no_report": True, "no_labels": True} | options
    return TextOptions(tuple(map(str, sources)), str(out), **options)


def image_job(sources, out, **options):
    options = {"resize": "shorter:8", "unit_size": "4KiB", "no_report": True} | options
    return ImageOptions(tuple(map(str, sources)), str(out), **options)


def same_set(job, lower, *weights, folder):
    """Builds at once, and in pieces of each weight; the number of units then."""
    built = preprocess(dataclasses.replace(job, out=f"{folder}/at-once"))
    units = []
    for weight in weights:
        lower(weight)
        out = f"{folder}/pieces-{weight}"
        done = preprocess(dataclasses.replace(job, out=out))
        assert done.manifest == built.manifest
        assert done.ignored == built.ignored
        assert verify(storage.place_of(out))[1] == []
        amounts = [
            [
                (one["source"], one["items"], one["bytes"])
                for one in report.build["inputs"]["sources"]
            ]
            for report in (done, built)
        ]
        assert amounts[0] == amounts[1]
        units.append(done.build["units"])
    return units


def test_texts(texts, lower, tmp_path):
    units = same_set(text_job([texts], "unused"), lower, 9, 3, folder=tmp_path)
    assert units[1] > units[0]


def test_several_sources(texts, make_images, lower, tmp_path):
    sources = sorted(texts.iterdir())[1:]
    same_set(text_job(sources, "unused", id_prefix="mine"), lower, 7, folder=tmp_path)


def test_splits_that_folders_name(make_images, lower, tmp_path):
    corpus = tmp_path / "splits"
    for split in ("train", "test"):
        make_images(9 if split == "train" else 4, side=20 + len(split), name=f"splits/{split}")
    (corpus / "validation" / "class0").mkdir(parents=True)
    (corpus / "validation" / "class0" / "broken.jpg").write_bytes(b"no image")
    job = image_job([corpus], "unused", split="folders")
    same_set(job, lower, 2, 5, folder=tmp_path)
    warnings = [
        json.loads((tmp_path / name / "build.json").read_text())["warnings"]
        for name in ("at-once", "pieces-2")
    ]
    for (warning,) in warnings:
        assert "'validation' is empty: no file of it has a record" in warning


def test_images_in_archives(make_images, lower, tmp_path):
    corpus, folder = make_images(24), tmp_path / "archives"
    folder.mkdir()
    for number in range(6):
        files = sorted(corpus.rglob("*.jpg"))[number::6]
        names = [path.relative_to(corpus).as_posix() for path in files]
        if number % 2:
            with tarfile.open(folder / f"{number}.tar.gz", "w:gz") as archive:
                [archive.add(path, name) for path, name in zip(files, names, strict=True)]
        else:
            with tarfile.open(folder / f"{number}.tar", "w") as archive:
                [archive.add(path, name) for path, name in zip(files, names, strict=True)]
    same_set(image_job([folder], "unused", source="tar"), lower, 2, folder=tmp_path)


def test_members_of_zip_files_by_their_names(texts, lower, tmp_path):
    folder = tmp_path / "zips"
    folder.mkdir()
    for number in range(4):
        with zipfile.ZipFile(folder / f"{number}.zip", "w") as archive:
            archive.writestr(f"label{number % 2}_{number}.txt", f"Text {number}.")
    job = text_job([folder], "unused", no_labels=False, label_pattern=r"(?P<label>label\d)")
    same_set(job, lower, 1, folder=tmp_path)


def test_in_a_bucket(make_images, lower, memory, tmp_path):
    url = memory.copy(make_images(24), "bucket/photos")
    here = preprocess(image_job([tmp_path / "corpus"], tmp_path / "set"))
    lower(5)
    there = preprocess(image_job([url], "memory://bucket/set"))
    assert there.manifest.root_hash == here.manifest.root_hash
    local = preprocess(image_job([tmp_path / "corpus"], tmp_path / "pieces"))
    units = [report.build["units"] for report in (here, there, local)]
    assert units[0] < units[1] == units[2]
    names = [name for name, _ in memory.list_tree("memory://bucket/set")]
    assert not [name for name in names if naming.WORK_DIR in name]


class Tasks:
    """Does tasks of listing here, and notes them.

    Args:
        job: The context of the job.
        hook: Called before each task.
    """

    def __init__(self, job, hook=lambda task: None):
        self.job, self.hook, self.done = job, hook, []

    def __call__(self, tasks):
        self.job.workspace.compare_again()  # as workers do, before a step
        for task in tasks:
            self.hook(task)
            list_pieces.do_piece(task, self.job)
            self.done.append(task)


def context(job):
    made = JobContext.create(resolve_options(job))
    made.workspace.create()
    return made


def listed(job, tasks=None):
    """(what is said of it, items, keys of units) of a listing."""
    listing = list_corpus(job, do_tasks=tasks)
    units = list(read_units(job.workspace))
    items = [
        item._replace(block=0)
        for unit in units
        for item in read_unit(job.workspace.listing_of(unit.piece), unit)
    ]
    return listing, items, units


def test_the_pieces_of_a_listing_have_its_items(texts, lower, tmp_path):
    whole = listed(context(text_job([texts], tmp_path / "whole")))
    lower(4)
    job = context(text_job([texts], tmp_path / "set"))
    tasks = Tasks(job)
    pieces = listed(job, tasks)
    assert pieces[1] == whole[1]
    same = ("items", "bytes", "ignored", "unselected")
    assert [getattr(pieces[0], name) for name in same] == [getattr(whole[0], name) for name in same]
    assert listed_pieces(job.workspace) == list(dict.fromkeys(one.piece for one in pieces[2]))
    assert {task.cuts for task in tasks.done} == {False, True}
    cut = [task.number for task in tasks.done if task.cuts]
    assert sorted(cut) == list(range(len(cut))) != cut  # in order, not as they were handed out
    # Which units there are depends on where pieces end; which set it is does not.
    lower(3)
    other = listed(context(text_job([texts], tmp_path / "set")))
    assert other[0].build_id == pieces[0].build_id != whole[0].build_id
    (texts / "class0" / "0.txt").write_text("Another text.")
    assert list_corpus(context(text_job([texts], tmp_path / "set"))).build_id != other[0].build_id


def test_tasks_may_be_repeated_and_killed(texts, lower, tmp_path):
    lower(6)
    job = context(text_job([texts], tmp_path / "set"))
    tasks = Tasks(job)
    expected = listed(job, tasks)
    number = len(tasks.done)
    for killed in range(0, number, 3):
        other = context(text_job([texts], tmp_path / "set"))

        left = list(range(killed))
        with pytest.raises(IndexError):  # in the place of a kill
            list_corpus(other, do_tasks=Tasks(other, lambda _, left=left: left.pop()))
        assert listed(context(text_job([texts], tmp_path / "set")))[:2] == expected[:2]
    twice = Tasks(job, lambda task: list_pieces.do_piece(task, job))
    assert listed(job, twice) == expected


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["listed", "left", "cutting", "cut-", "units", "../listing"])
def test_damage_between_two_rounds_is_found(kind, texts, lower, tmp_path):
    lower(12)
    job = text_job([texts], tmp_path / "set")
    expected = listed(context(job))
    pieces = tmp_path / "set" / naming.WORK_DIR / "pieces"
    errors, moment = 0, 0
    while errors == 0 or moment < 6:
        damaged, left = context(job), list(range(moment))

        def damage(left=left):
            """At one moment of a build, before or after the tasks of a round."""
            if left:
                left.pop()
                return
            for path in pieces.glob(f"{kind}*"):
                flip_a_bit(path)
            left += [0] * 1000

        def do_and_damage(tasks, damaged=damaged, damage=damage):
            damage()
            Tasks(damaged)(tasks)
            damage()

        try:
            assert listed(damaged, do_and_damage) == expected  # all of it was read before
        except InputError as error:
            assert AGAIN in str(error)
            errors += 1
        moment += 1
        assert moment < 20
    assert listed(context(job)) == expected


def test_a_lost_task_is_noticed(texts, lower, tmp_path):
    lower(6)
    job = context(text_job([texts], tmp_path / "set"))
    tasks = Tasks(job)
    listed(job, tasks)
    for lost in tasks.done[::4]:
        other = context(text_job([texts], tmp_path / "set"))

        def lose(tasks, other=other, lost=lost):
            for task in tasks:
                if task != lost:
                    list_pieces.do_piece(task, other)

        with pytest.raises(InputError, match="is missing or damaged"):
            list_corpus(other, do_tasks=lose)


@pytest.mark.parametrize(
    "options", [{"worker_type": "threads"}, {"worker_type": "processes"}, {"beam": True}]
)
def test_any_engine(make_images, lower, tmp_path, monkeypatch, options):
    corpus = make_images(12)
    expected = preprocess(image_job([corpus], tmp_path / "at-once")).manifest.root_hash
    lower(3)
    monkeypatch.setattr("beam_jobs.run._WORTH_PIPELINE", 0)
    beam = ["--direct_running_mode=in_memory"] if options.pop("beam", False) else []
    progress = []
    job = image_job([corpus], tmp_path / "set", workers=2, **options)
    report = preprocess(job, beam, lambda *done: progress.append(done))
    assert report.manifest.root_hash == expected
    counts = [done for stage, done, _ in progress if stage == "list"]
    assert counts == sorted(counts) and counts[-1] == 12
    assert [stage for stage, *_ in progress].index("stage") >= len(counts)


def test_an_error_of_a_worker_is_that_of_the_job(make_images, lower, tmp_path):
    corpus = make_images(12)
    lower(3)
    (corpus / "class2" / "set").mkdir()
    manifest = {"format_version": 99, "root_hash": "", "schema": {}}
    (corpus / "class2" / "set" / naming.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(Exception, match="version") as at_once:
        list_corpus(context(image_job([corpus], tmp_path / "other")))
    with pytest.raises(type(at_once.value), match="version"):
        preprocess(image_job([corpus], tmp_path / "set", workers=2))
    assert not (tmp_path / "set").exists()


def test_a_dry_run_says_the_same(texts, lower, tmp_path):
    at_once = dry_run(text_job([texts], tmp_path / "set"))
    lower(4)
    pieces = dry_run(text_job([texts], tmp_path / "set"))
    same = ("files", "items", "bytes", "kinds", "ignored", "rejected", "classes", "state")
    assert [getattr(pieces, name) for name in same] == [getattr(at_once, name) for name in same]


def test_units_of_a_grown_corpus_are_reused(make_images, lower, tmp_path):
    lower(10)
    corpus = make_images(36)
    options = {"staging": str(tmp_path / "staging"), "unit_size": "1KiB"}
    first = preprocess(image_job([corpus], tmp_path / "one", **options))
    staged = set((tmp_path / "staging" / "units").glob("*.json"))
    (corpus / "class1" / "016b.jpg").write_bytes((corpus / "class0" / "000.jpg").read_bytes())
    notes = []
    preprocess(image_job([corpus], tmp_path / "two", **options), on_note=notes.append)
    new = set((tmp_path / "staging" / "units").glob("*.json")) - staged
    assert 0 < len(new) < first.build["units"] / 2
    assert "1 file added (class1/016b.jpg)" in notes[0]


def test_what_one_worker_lists(make_images, lower, tmp_path):
    corpus = make_images(8)
    table = "path,label\n" + "".join(
        f"{path.relative_to(corpus)},x\n" for path in sorted(corpus.rglob("*.jpg"))
    )
    (tmp_path / "labels.csv").write_text(table)
    lower(2)
    job = context(image_job([corpus], tmp_path / "set", labels=str(tmp_path / "labels.csv")))
    assert list_corpus(job).items == 8
    assert listed_pieces(job.workspace) == [0]
    split = context(image_job([corpus], tmp_path / "other", split="train=0.5,test=0.5"))
    assert list_corpus(split).items == 8
    assert len(listed_pieces(split.workspace)) > 1


def test_a_repair_of_a_grown_corpus_finds_the_same_build(texts, lower, tmp_path):
    lower(6)
    job = text_job([texts], tmp_path / "set")
    report = preprocess(job)
    (texts / "class0" / "0a.txt").write_text("It came later.")
    items = str(tmp_path / "set" / naming.READ_ITEMS)
    again = dataclasses.replace(job, out=str(tmp_path / "again"))
    assert list_corpus(context(again)).build_id != report.build["build_id"]
    known = list_corpus(context(dataclasses.replace(again, only_items=items)))
    assert known.build_id == report.build["build_id"]


def test_nothing_to_use(lower, tmp_path):
    for number in range(9):
        path = tmp_path / "flat" / f"cat_{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff")
    lower(2)
    with pytest.raises(InputError, match=r"among 9 files .* like 'cat_1.jpg' and 'cat_2.jpg'"):
        preprocess(image_job([tmp_path / "flat"], tmp_path / "set"))


ITEMS = st.builds(
    SourceItem,
    st.text(),
    st.binary(),
    st.none() | st.text(),
    st.integers(),
    st.integers(),
    st.text(),
    st.text(),
    st.just(WHOLE_FILE) | st.builds(Locator, st.text(), st.text(), st.integers()),
    st.integers(),
    st.none() | st.text(),
    st.none() | st.text(),
    st.tuples(st.text() | st.integers() | st.floats()),
    st.just(b"") | st.binary(),
)


@given(item=ITEMS)
def test_the_identity_of_an_item_is_the_text_of_it_without_its_path(item):
    replaced = b"replaced" if item.replacement else b""
    text = repr(item._replace(path=b"", block=0, replacement=replaced))
    assert item_identity(item) == text.encode()
