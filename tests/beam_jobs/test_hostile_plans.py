"""Plans, splits, balance and quarantine: what went wrong once, found by trying to break them."""

from __future__ import annotations

import json
import tarfile
import zipfile

import numpy as np
import pytest

from beam_jobs.corpus.replacements import original_path
from beam_jobs.options.values import parse_splits
from beam_jobs.quarantine import export, rejected_records, replay_options
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.duplicates import read_clusters
from beam_jobs.run import preprocess
from beam_jobs.stages.labels import sorted_names
from beam_jobs.staging.assignment import Assignment
from beam_jobs.staging.recipes import RecipeUnit, RecipeWriter
from beam_jobs.workspace import Workspace
from foundation import storage
from shard_format import InputError, UsageError, load_manifest


def _replay(out, folder=None, **changes):
    changes |= {"out": str(out), "overwrite": True}
    return preprocess(replay_options(out, folder, (), changes))


def _reasons(out):
    return [(row.record_id, row.stage, row.reason) for row in rejected_records(out)]


def test_more_splits_than_a_byte_can_tell_apart():
    """With 200 of them, a third of the records were in none, and nothing said so."""
    assert len(parse_splits(",".join(f"s{n}={1 / 127}" for n in range(127)))) == 127
    with pytest.raises(UsageError, match="at most 127 splits, got 200"):
        parse_splits(",".join(f"s{n}=0.005" for n in range(200)))


def test_class_names_of_more_digits_than_python_reads():
    long = "1" * 5000
    assert sorted_names({long, "10", "9", "0"}) == ["0", "9", "10", long]
    assert sorted_names({long, "01", "9"}) == sorted({long, "01", "9"})


@pytest.mark.parametrize(
    ("names", "training"),
    [(["test", "fit"], "fit"), (["val", "test", "train"], "train"), (["a", "b"], "a")],
)
def test_no_evaluation_split_is_trained_on(sidecars_of_one, tmp_path, names, training):
    """With test=0.2,fit=0.8 the test split was balanced, and pixels were measured on it."""
    assignment = Assignment(np.zeros(sidecars_of_one.records, np.int8))
    assignment.names = names
    assert names[assignment.training] == training


@pytest.fixture
def sidecars_of_one():
    class One:
        begins = np.array([0, 1])
        records = 1

    return One()


def test_kept_duplicates_in_two_given_splits_are_reported(make_images, build, tmp_path):
    """They were left on both sides, a leak, though "keep" promises all of them in one split."""
    corpus = tmp_path / "given"
    for split in ("train", "test"):
        make_images(4, classes=2, name=f"given/{split}")
    message = r"4 clusters of duplicates are in two splits, .* in test and .* in train"
    with pytest.raises(InputError, match=message):
        build(corpus, split="folders", duplicates="keep")
    ledger = build(corpus, "dropped", split="folders").manifest.ledger
    assert (ledger.kept, ledger.duplicates) == (4, 4)


def test_two_copies_of_a_record_are_two_recipes(tmp_path):
    """They differ in their keys alone, which the index has."""
    workspace = Workspace(tmp_path, None)
    workspace.create()
    zero, recipes = np.zeros(1, np.int64), []
    for key in (1, 2):
        unit = RecipeUnit("unit", "")
        writer = RecipeWriter(workspace, "images", {"train": 1}, [unit], b"")
        writer.append("train", zero, zero, zero, np.array([key], np.uint64))
        recipes += writer.finish()
    assert recipes[0].recipe_key != recipes[1].recipe_key


def test_other_fractions_find_the_staged_units(make_images, build, tmp_path):
    corpus, staging = make_images(), str(tmp_path / "staging")
    build(corpus, "one", staging=staging)
    report = build(corpus, "two", staging=staging, split="train=0.5,test=0.5")
    assert report.build["units_reused"] == report.build["units"]
    fresh = build(corpus, "fresh", split="train=0.5,test=0.5")
    assert fresh.manifest.root_hash == report.manifest.root_hash


def test_a_member_that_fails_its_checksum_is_not_mended_by_exporting_it(
    make_images, build, tmp_path
):
    """Its bytes decode, so a replay took what was exported, and nobody had touched, for good."""
    corpus, root = make_images(6, classes=2), tmp_path / "zipped"
    root.mkdir()
    names = sorted(path.relative_to(corpus).as_posix() for path in corpus.rglob("*.jpg"))
    with zipfile.ZipFile(root / "a.zip", "w") as archive:
        for name in names:
            archive.write(corpus / name, name)
    good = (corpus / names[2]).read_bytes()
    data = bytearray((root / "a.zip").read_bytes())
    # A byte of the pixels: still a JPEG that decodes to its end.
    data[data.find(good) + len(good) - 100] ^= 1
    (root / "a.zip").write_bytes(data)
    before = build(root, split="train=1").manifest
    assert before.ledger.reasons == {"damaged-record": 1}
    export(tmp_path / "set", tmp_path / "refused")
    assert _replay(tmp_path / "set", tmp_path / "refused").manifest == before

    original_path(tmp_path / "refused" / "files", f"a.zip/{names[2]}").write_bytes(good)
    assert _replay(tmp_path / "set", tmp_path / "refused").manifest.ledger.quarantined == 0


def test_a_label_that_cannot_be_read_stays_the_reason(make_images, build, tmp_path):
    corpus, root = make_images(4, classes=1), tmp_path / "tarred"
    root.mkdir()
    with tarfile.open(root / "a.tar", "w") as archive:
        for number in range(4):
            text = tmp_path / "label.json"
            text.write_text("{broken" if number == 2 else json.dumps({"label": "hat"}))
            archive.add(corpus / "class0" / f"{number:03d}.jpg", f"{number}.jpg")
            archive.add(text, f"{number}.json")
    before = build(root).manifest
    export(tmp_path / "set", tmp_path / "refused")
    assert _replay(tmp_path / "set", tmp_path / "refused").manifest == before
    assert _reasons(tmp_path / "set") == [("a.tar/2.jpg", "read", "bad-companion")]


@pytest.fixture
def nested(make_images, build, tmp_path):
    """A set that refused a file, one "inside" of it, and one of a very long name."""
    corpus, root = make_images(4, classes=1), tmp_path / "zipped"
    root.mkdir()
    with zipfile.ZipFile(root / "a.zip", "w") as archive:
        for path in corpus.rglob("*.jpg"):
            archive.write(path, f"hat/{path.name}")
        archive.writestr("hat/x.jpg", b"outer")
        archive.writestr("hat/x.jpg/y.jpg", b"inner")
        archive.writestr("hat/" + "/".join(["d" * 200] * 25) + ".jpg", b"long")
    build(root)
    return tmp_path / "set", (corpus / "class0" / "000.jpg").read_bytes()


def test_a_record_with_the_path_of_a_folder_is_exported(nested, tmp_path):
    """A damaged a.tar next to refused members of it was a traceback."""
    out, _ = nested
    assert export(out, tmp_path / "refused") == (3, 0, 0)
    rows = (tmp_path / "refused" / "quarantine.tsv").read_text().splitlines()[1:]
    written = {(tmp_path / "refused" / row.split("\t")[1]).read_bytes() for row in rows}
    assert written == {b"outer", b"inner", b"long"}


def test_a_record_with_the_path_of_a_folder_is_mended(nested, tmp_path):
    out, good = nested
    export(out, tmp_path / "refused")
    for number, path in enumerate(sorted((tmp_path / "refused" / "files").rglob("*"))):
        if path.is_file():
            path.write_bytes(good + bytes([number]))
    assert _replay(out, tmp_path / "refused").manifest.ledger.quarantined == 0


def test_a_folder_that_cannot_be_written_to(nested, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write_bytes", full)
    with pytest.raises(InputError, match="No space left"):
        export(nested[0], tmp_path / "refused")


def test_a_replay_removes_nothing_that_it_did_not_make(make_images, build, tmp_path):
    """A folder "set.before" of the user's was taken for the rest of a replay, and removed."""
    build(make_images())
    backup = tmp_path / "set.before"
    backup.mkdir()
    (backup / "notes.txt").write_text("mine")
    _replay(tmp_path / "set", min_side=8)
    assert (backup / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.glob("set*")) == ["set", "set.before"]
    assert not (tmp_path / "set" / ".shardmill").exists()


def test_a_replay_through_a_link_leaves_the_link(make_images, build, tmp_path):
    build(make_images(), "real")
    link = tmp_path / "link"
    link.symlink_to("real")
    report = _replay(link, min_side=8)
    assert link.is_symlink()
    assert load_manifest(tmp_path / "real") == report.manifest
    assert sorted(path.name for path in tmp_path.glob("link*")) == ["link"]


def test_a_reason_that_no_record_has_is_reported(make_images, build, tmp_path, shardmill):
    corpus = make_images()
    (corpus / "class0" / "\x1b[31mred.jpg").write_bytes(b"no picture")
    build(corpus)
    done = shardmill("quarantine", "list", str(tmp_path / "set"), "--reason", "nope")
    assert done.returncode == 3
    assert "not-an-image" in done.stderr
    for arguments in ((), ("--reason", "not-an-image")):
        done = shardmill("quarantine", "list", str(tmp_path / "set"), *arguments)
        assert done.returncode == 0
        assert "\x1b[31m" not in done.stdout


def test_copies_are_reported_with_the_ledger(make_images, build, tmp_path, shardmill):
    """The splits held more than was kept, without a word."""
    corpus = make_images(9, classes=1)
    lone = corpus / "lone"
    lone.mkdir()
    (corpus / "class0" / "000.jpg").rename(lone / "000.jpg")
    manifest = build(corpus, balance="oversample", split="train=1").manifest
    assert manifest.ledger.repeated == 7
    done = shardmill("inspect", str(tmp_path / "set"))
    assert "repeated to balance 7" in " ".join(done.stdout.split())


def test_the_report_of_a_cluster_that_is_left_out(make_images, build, tmp_path, shardmill):
    """It was shown as kept, its first record twice, and records counted as clusters in conflict."""
    corpus = make_images(9, classes=3)
    data = (corpus / "class0" / "000.jpg").read_bytes()
    for name in ("class0/copy.jpg", "class1/copy.jpg"):
        (corpus / name).write_bytes(data)
    build(corpus, conflicts="drop", no_report=False)
    (cluster,) = read_clusters(ReportedSet(tmp_path / "set"))
    assert cluster.left_out
    assert cluster.size == 2
    assert [(one.record_id, one.conflict) for one in cluster.members] == [
        ("class1/copy.jpg", True),
        ("class0/copy.jpg", False),
    ]
    assert "1 cluster with conflicting labels" in (tmp_path / "set" / "report.html").read_text()
    assert "1 with conflicting labels" in shardmill("inspect", str(tmp_path / "set")).stdout


def test_the_report_tells_filtered_from_refused(make_images, build, tmp_path):
    """A rule's reason stood below "quarantined", which has its bytes but not its count."""
    corpus = make_images(6, classes=2)
    (corpus / "class0" / "bad.jpg").write_bytes(b"no picture")
    build(corpus, min_side=25, split="train=1", no_report=False)  # they have 24
    text = (tmp_path / "set" / "report.html").read_text()
    table = text[text.index(">share<") :]
    parts = [table.index(f">{word}<") for word in ("filtered", "too-small", "quarantined")]
    assert parts == sorted(parts)


def test_several_labels_in_a_table_of_text(make_images, build, tmp_path):
    """In CSV, "a|b" was one class called so, and "b|a" another."""
    corpus, table = make_images(4, classes=1), tmp_path / "labels.csv"
    names = ["a|b", "b | a", "b", ""]
    rows = [f"class0/{number:03d}.jpg,{label}" for number, label in enumerate(names)]
    table.write_text("\n".join(["path,label", *rows]))
    manifest = build(corpus, labels=str(table), multi_label=True, split="train=1").manifest
    assert manifest.splits["train"].statistics["class_counts"] == {"a": 2, "b": 3}
    assert manifest.ledger.reasons == {"no-label": 1}
