"""What users get wrong, and what they really have: a clear answer, nothing lost."""

from __future__ import annotations

import json
import os
import shlex
import shutil

import pyarrow.parquet as pq
import pytest

from beam_jobs.options import ImageOptions
from beam_jobs.options.values import parse_splits
from beam_jobs.stages.plan import merge_levels
from foundation.wording import parse_size
from shard_format import InputError, UsageError, load_manifest, verify


def quarantine(out):
    parts = sorted((out / "quarantine").glob("*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def test_the_samples_have_what_they_are_said_to_have(samples, build, tmp_path):
    ledger = build(samples).manifest.ledger
    assert (ledger.read, ledger.kept, ledger.duplicates, ledger.quarantined) == (324, 320, 2, 2)
    assert ledger.reasons == {"not-an-image": 1, "truncated": 1}
    for row in quarantine(tmp_path / "set"):
        assert row["bytes"] == (samples / row["record_id"]).read_bytes()


def test_every_bad_image(corpora, shardmill, tmp_path):
    """296 files that broke a decoder somewhere: each one is kept, or refused with a reason."""
    source, out = corpora / "bad-images", tmp_path / "set"
    done = shardmill("preprocess", "images", source, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    files = [path for path in source.rglob("*") if path.is_file()]
    assert summary["read"] == len(files) == 296
    counted = ("kept", "duplicates", "filtered", "quarantined")
    assert summary["read"] == sum(summary[name] for name in counted)
    refused = {row["record_id"]: row for row in quarantine(out)}
    assert len(refused) == summary["quarantined"] == sum(summary["reasons"].values())
    for record_id, row in refused.items():
        assert row["bytes"] == (source / record_id).read_bytes()
        assert row["reason"] and len(row["detail"]) > 10
    # What Pillow cannot decode is not in the set; the bombs are refused before they explode.
    verdicts = (source / "EXPECTED.tsv").read_text().splitlines()[1:]
    for line in verdicts:
        path, *_, verdict = line.split("\t")
        if verdict != "ok":
            assert path in refused, path
    assert all(f"bombs/pillow/{name}" in refused for name in os.listdir(source / "bombs/pillow"))
    assert verify(out)[1] == []


def test_quarantine_in_many_parts(make_images, build, tmp_path, monkeypatch):
    corpus = make_images(3, classes=1)
    originals = {}
    for number in range(25):
        name = f"class0/broken{number:02d}.jpg"
        originals[name] = b"broken" * number
        (corpus / name).write_bytes(originals[name])
    build(corpus, "one", source="class-folders")
    monkeypatch.setattr("beam_jobs.stages.commit.quarantine._PART_BYTES", 400)
    monkeypatch.setattr("beam_jobs.stages.commit.quarantine._GROUP_BYTES", 150)
    build(corpus, "many", unit_size="200B", source="class-folders")
    assert len(list((tmp_path / "many" / "quarantine").iterdir())) > 3
    rows = quarantine(tmp_path / "many")
    assert rows == quarantine(tmp_path / "one")
    assert {row["record_id"]: row["bytes"] for row in rows} == originals
    assert [row["record_id"] for row in rows] == sorted(originals)
    assert verify(tmp_path / "many")[1] == []
    # Workers write the parts of a large corpus, whatever their units are.
    monkeypatch.setattr(merge_levels, "_LOCAL_BYTES", 1)
    monkeypatch.setattr(merge_levels, "RANGE_BYTES", 1 << 10)
    monkeypatch.delattr("beam_jobs.stages.commit.shard_set.write_quarantine")
    for unit_size in ("200B", "2KB"):
        build(corpus, "spread", unit_size=unit_size, source="class-folders", overwrite=True)
        assert load_manifest(tmp_path / "spread") == load_manifest(tmp_path / "many")
        assert verify(tmp_path / "spread")[1] == []
    removed = ["class0/broken07.jpg", "class0/000.jpg"]
    (tmp_path / "removed.txt").write_text("\n".join(removed))
    build(corpus, "less", source="class-folders", exclude_ids=str(tmp_path / "removed.txt"))
    assert quarantine(tmp_path / "less") == [row for row in rows if row["record_id"] not in removed]


def test_odd_names_are_names(make_images, build, tmp_path):
    corpus = make_images(4, classes=1)
    image = (corpus / "class0" / "000.jpg").read_bytes()
    for number, name in enumerate(
        ["two words", "new\nline", "ünïcode", "emoji-\N{CAT}", "%s{}'\""]
    ):
        folder = corpus / name
        folder.mkdir()
        (folder / f"{name}.jpg").write_bytes(image + bytes([number]))
    raw = os.fsencode(corpus / "class0") + b"/latin-\xe9.jpg"
    with open(raw, "wb") as file:
        file.write(image + b"x")
    manifest = build(corpus, dedup="off").manifest
    assert manifest.ledger.kept == manifest.ledger.read == 10
    assert "new\nline" in manifest.schema["label"].class_names


def test_hidden_files_are_left_out_and_counted(make_images, build):
    corpus = make_images(4, classes=2)
    for name in (".DS_Store", "Thumbs.db"):
        (corpus / "class0" / name).write_bytes(b"x")
    (corpus / ".git").mkdir()
    report = build(corpus)
    assert report.manifest.ledger.read == 4
    assert report.ignored == 3


def test_links_are_followed_but_not_in_circles(make_images, build, tmp_path):
    corpus = make_images(4, classes=2)
    (corpus / "class1" / "again").symlink_to(corpus, target_is_directory=True)
    (corpus / "class1" / "gone.jpg").symlink_to(corpus / "nowhere.jpg")
    elsewhere = tmp_path / "elsewhere.jpg"
    elsewhere.write_bytes((corpus / "class0" / "000.jpg").read_bytes() + b"x")
    (corpus / "class1" / "linked.jpg").symlink_to(elsewhere)
    os.mkfifo(corpus / "class1" / "pipe.jpg")
    reasons = {"broken-link": 1, "link-cycle": 1, "not-a-file": 1}
    ledger = build(corpus, dedup="off").manifest.ledger
    assert (ledger.kept, ledger.reasons) == (4, reasons | {"outside-link": 1})
    ledger = build(corpus, "followed", dedup="off", follow_links=True).manifest.ledger
    assert (ledger.kept, ledger.reasons) == (5, reasons)


def test_a_file_next_to_the_class_folders_is_not_lost(make_images, build, tmp_path):
    corpus = make_images(4)
    (corpus / "readme.txt").write_text("hello")
    assert build(corpus).manifest.ledger.reasons == {"no-class-folder": 1}
    assert [row["bytes"] for row in quarantine(tmp_path / "set")] == [b"hello"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_and_folders_that_may_not_be_read(make_images, build):
    corpus = make_images(6, classes=2)
    (corpus / "class0" / "000.jpg").chmod(0)
    (corpus / "class1").chmod(0)
    try:
        assert build(corpus).manifest.ledger.reasons == {"unreadable": 2}
    finally:
        (corpus / "class1").chmod(0o755)


def test_a_file_that_vanishes_after_listing_is_counted(make_images, build, monkeypatch):
    from beam_jobs import build as building

    corpus, real = make_images(6), building.list_corpus

    def list_then_remove(*arguments):
        listing = real(*arguments)
        (corpus / "class0" / "000.jpg").unlink()
        return listing

    monkeypatch.setattr(building, "list_corpus", list_then_remove)
    ledger = build(corpus).manifest.ledger
    assert (ledger.read, ledger.kept, ledger.reasons) == (6, 5, {"missing-file": 1})


def test_several_sources_are_reported_apart(make_images, tmp_path):
    from beam_jobs.run import preprocess

    one, two = make_images(4, name="one"), make_images(4, name="two")
    hashes = set()
    for number, sources in enumerate([(one, two), (two, one)]):
        options = ImageOptions(
            tuple(map(str, sources)), str(tmp_path / f"set{number}"), dedup="off", workers=1
        )
        manifest = preprocess(options).manifest
        assert manifest.ledger.kept == 8
        hashes.add(manifest.root_hash)
    assert len(hashes) == 1
    other = tmp_path / "other" / "one"
    shutil.copytree(one, other)
    manifest = preprocess(
        ImageOptions((str(one), str(other)), str(tmp_path / "set"), dedup="off", workers=1)
    ).manifest
    assert manifest.ledger.kept == 8


def test_a_flat_folder_gets_a_command_that_works(make_images, build, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in make_images(6).rglob("*.jpg"):
        path.rename(flat / f"{path.parent.name}_{path.name}")
    with pytest.raises(InputError) as error:
        build(flat)
    first, command = str(error.value).split("\n  ")
    assert "'class0_000.jpg' is rejected as no-class-folder (the file is not in a class" in first
    assert ", like 'class0_003.jpg' and 'class1_001.jpg'. Use one folder per class" in first
    assert first.endswith("Their names have 3 classes ('class0', 'class1', 'class2'):")
    words = shlex.split(command)
    pattern = words[words.index("--label-pattern") + 1]
    assert pattern == r"^(?P<label>.+)_\d+\."
    label = build(flat, label_pattern=pattern).manifest.schema.features[-1]
    assert label.class_names == ("class0", "class1", "class2")


def test_on_bad_fail_stops_with_the_file(make_images, build):
    corpus = make_images(4)
    (corpus / "class0" / "broken.jpg").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken\.jpg is rejected as not-an-image"):
        build(corpus, on_bad="fail")
    with pytest.raises(InputError, match=r"broken\.jpg is rejected as not-an-image"):
        build(corpus, "two", on_bad="fail", workers=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "Found no files"),
        (lambda path: path.write_bytes(b"x"), "is not in a class folder"),
        (lambda path: (path.mkdir(), (path / "1.jpg").write_bytes(b"x")), "one folder per class"),
        (lambda path: (path / "empty").mkdir(parents=True), "Found no files"),
    ],
)
def test_a_source_that_cannot_be_used_leaves_no_output(tmp_path, build, make, message):
    source = tmp_path / "source"
    make(source)
    with pytest.raises(InputError, match=message):
        build(source)
    assert not (tmp_path / "set").exists()


def test_an_output_that_is_taken(make_images, build, tmp_path):
    corpus = make_images()
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file is a file, not a folder"):
        build(corpus, "file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"contains 'thesis\.tex'"):
        build(corpus, "full")
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]
    with pytest.raises(InputError, match="overlap"):
        build(corpus, corpus / "out")
    build(corpus, "set")
    before = sorted(os.listdir(tmp_path / "set"))
    with pytest.raises(InputError, match="another set"):
        build(corpus, "set", quality=50)
    assert sorted(os.listdir(tmp_path / "set")) == before


def test_the_output_cannot_be_written(make_images, build):
    with pytest.raises(InputError, match="shardmill-set"):
        build(make_images(), "/proc/shardmill-set")


def test_a_full_disk_is_reported_without_losing_work(make_images, build, monkeypatch, tmp_path):
    from beam_jobs.stages import shard

    corpus = make_images(20)
    real = shard.frame_columns

    def full(payload):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shard, "frame_columns", full)
    with pytest.raises(InputError, match=r"No space left.*same command again"):
        build(corpus)
    monkeypatch.setattr(shard, "frame_columns", real)
    report = build(corpus)
    assert report.build["units_reused"] == report.build["units"]


def test_nothing_usable_is_an_empty_set_with_its_evidence(tmp_path, build):
    folder = tmp_path / "corpus" / "class"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(b"not a picture")
    manifest = build(tmp_path / "corpus").manifest
    assert (manifest.ledger.kept, manifest.ledger.quarantined) == (0, 1)
    assert len(quarantine(tmp_path / "set")) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "train=0.9"}, r"sum to 0\.9, not 1.*missing 0\.1"),
        ({"split": "train=0.5,train=0.5"}, "twice"),
        ({"split": "train"}, "NAME=FRACTION"),
        ({"split": "Train=1"}, "lower-case"),
        ({"quality": 0}, r"--quality must be a whole number in \[1, 100\]"),
        ({"seed": -1}, "--seed"),
        ({"num_shards": 0}, "--num-shards"),
        ({"shard_size": "big"}, "128MiB"),
        ({"dedup": "fuzzy"}, "exact, near, off"),
        ({"name": "My Set"}, "lower-case"),
        ({"out": "oss://bucket/set"}, "No storage for oss://"),
        ({"out": "s3://key:secret@bucket/set"}, "credentials"),
        ({"sources": ()}, "No source given"),
    ],
)
def test_wrong_options_are_reported(change, message):
    with pytest.raises(UsageError, match=message):
        ImageOptions(**({"sources": ("a",), "out": "b"} | change))


def test_paths_are_accepted_and_stored_as_text(tmp_path):
    options = ImageOptions(tmp_path / "a", tmp_path / "b", labels=tmp_path / "c")
    assert options.sources == (str(tmp_path / "a"),)
    assert (options.out, options.labels) == (str(tmp_path / "b"), str(tmp_path / "c"))
    assert ImageOptions("ab", "c").sources == ("ab",)


def test_sizes_and_splits_are_read():
    assert parse_size("--x", "128MiB") == 128 << 20
    assert parse_size("--x", "1.5 GB") == 1_500_000_000
    assert parse_size("--x", "4096") == 4096
    assert list(parse_splits("b=0.25, a=0.75")) == ["b", "a"]
