"""--include and --exclude: which files are read, and that later commands of a set know it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from beam_jobs.generations.append import append
from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.quarantine import replay_options
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from beam_jobs.stages.list import resolve_options
from cli.commands.preprocess import preprocess as command
from shard_format import InputError, UsageError, load_build, load_manifest

from .conftest import JPEG, tar_of, zip_of

FILES = ("cat/1.jpg", "cat/2.JPG", "cat/raw/3.jpg", "dog/1.jpg", "dog/notes.txt", "raw/9.jpg")


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"include": "*.jpg"}, "cat/1.jpg cat/raw/3.jpg dog/1.jpg raw/9.jpg"),
        ({"exclude": "*.txt,*.JPG,raw/*"}, "cat/1.jpg cat/raw/3.jpg dog/1.jpg"),
        ({"exclude": "*/raw/*,dog/*"}, "cat/1.jpg cat/2.JPG raw/9.jpg"),
        ({"include": "cat/*,[0-9].jpg", "exclude": "1.*"}, "cat/2.JPG cat/raw/3.jpg raw/9.jpg"),
        ({"include": "cat/?.jpg"}, "cat/1.jpg"),
    ],
)
def test_names_and_paths(options, read, corpus, records):
    assert sorted(records(corpus(*FILES), **options)) == read.split()
    assert not records.ignored
    # With several sources, paths begin with the name of a source.
    both = records(corpus(*FILES), corpus("x/1.jpg", folder="others"), include="others/*")
    assert list(both) == ["others/x/1.jpg"]


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_members_of_archives(pack, corpus, records, tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("a", "b"):
        pack(tmp_path / "photos" / f"{name}.bin", dict.fromkeys(FILES, JPEG))
    root = tmp_path / "photos"
    assert sorted(records(root, exclude="b.bin,*.txt,raw/*,a.bin/raw/*,*.JPG")) == [
        "a.bin/cat/1.jpg",
        "a.bin/cat/raw/3.jpg",
        "a.bin/dog/1.jpg",
    ]
    assert set(records(root, include="a.bin")) == {f"a.bin/{name}" for name in FILES}
    assert list(records(root, include="*/dog/*.jpg", exclude="a.*")) == ["b.bin/dog/1.jpg"]


def test_companions_go_with_their_record(records, tmp_path):
    members = {"1.jpg": JPEG, "1.json": b'{"label": "a"}', "2.jpg": JPEG, "2.cls": b"b"}
    results = records(tar_of(tmp_path / "a.tar", members), include="*.jpg", exclude="2.*")
    assert {name: raw.label for name, raw in results.items()} == {"a.tar/1.jpg": "a"}


def test_rows_of_the_table_for_files_that_are_left_out(corpus, records, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("path,label\ncat/1.jpg,x\nraw/9.jpg,y\nraw/8.jpg,y\n")
    results = records(corpus(*FILES), labels=str(table), include="cat/1.jpg", exclude="raw/*")
    assert [name for name, raw in results.items() if raw[0] != "missing-file"] == ["cat/1.jpg"]
    assert list(results)[1:] == ["raw/8.jpg"]  # which is nowhere


def test_what_is_left_out_says_nothing_of_the_corpus(corpus, tmp_path):
    root = corpus("cat/1.jpg", "dog/2.jpg")
    tar_of(root / "cat" / "a.tar", {"1.jpg": JPEG})
    with pytest.raises(InputError, match="several kinds"):
        resolve_options(ImageOptions((str(root),), "out"))
    for options in ({"exclude": "*.tar"}, {"exclude": "cat/a*"}):
        job = resolve_options(ImageOptions((str(root),), "out", **options))
        assert (job.source, job.notes) == ("class-folders", ())
    for name in ("pos/1.txt", "neg/1.txt", "make.py"):
        (tmp_path / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / name).write_text("some text")
    texts = (str(tmp_path / "texts"),)
    assert resolve_options(TextOptions(texts, "out")).no_labels
    assert not resolve_options(TextOptions(texts, "out", exclude="*.py")).no_labels


def test_nothing_is_left(corpus, tmp_path):
    job = ImageOptions((str(corpus(*FILES)),), str(tmp_path / "set"), include="*.png")
    with pytest.raises(InputError, match=r"Found no files .* Check the path, --include and"):
        preprocess(job)
    for glob in ("", "a,a", "/a/*.jpg", "./a", "../*"):
        with pytest.raises(UsageError, match="--exclude"):
            ImageOptions(("photos",), "out", exclude=glob)


@pytest.fixture
def crawl(tmp_path):
    """A function that writes more files into a folder."""

    def write(*names):
        for name in names:
            path = tmp_path / "crawl" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"What {name} says is a text of its own.")
        return str(tmp_path / "crawl")

    return write


def test_every_later_command_knows_it(crawl, tmp_path):
    out = str(tmp_path / "set")
    folder = crawl("web/1.txt", "web/2.txt", "tests/1.txt", "tests/1.py")
    job = TextOptions(
        (folder,), out, no_labels=True, exclude="tests/*", split="train=1", workers=1
    )  # fmt: skip
    report = preprocess(job)
    assert report.manifest.ledger.read == 2
    assert report.build["notes"] == ["--exclude left out 2 files"]
    assert preprocess(job).already_built
    assert replay_options(tmp_path / "set", None, (), {}).exclude == "tests/*"
    with pytest.raises(InputError, match=r"--exclude: tests/\* then, not given now"):
        preprocess(TextOptions((folder,), out, no_labels=True, split="train=1", workers=1))
    # Files that were left out stay out, also of a folder that has grown.
    crawl("web/3.txt", "tests/2.txt")
    grown = append(TextOptions((folder,), out, append=True, workers=1))
    assert (grown.own.ledger.read, grown.manifest.ledger.read) == (1, 3)
    with pytest.raises(UsageError, match=r"--exclude is \*.md and tests/\* in the set"):
        append(TextOptions((folder,), out, append=True, exclude="*.md"))
    shard = next(tmp_path.joinpath("set").glob("*.tfrecord*"))
    whole = shard.read_bytes()
    shard.write_bytes(b"")
    assert repair(tmp_path / "set").left == []
    assert shard.read_bytes() == whole


def test_flags_are_repeatable(crawl, tmp_path):
    folder = crawl("1.txt", "2.py", "3.md", "raw/4.txt")
    words = [folder, "--no-labels", "--no-report", "--workers", "1"]
    words += ["--exclude", "*.py", "--exclude", "raw/*"]
    config = tmp_path / "job.toml"
    first = ["text", *words, "--out", str(tmp_path / "a"), "--save-config", str(config)]
    done = CliRunner().invoke(command, first)
    assert done.exit_code == 0, done.output
    for further in (["--config", str(config)], ["--like", str(tmp_path / "a"), "--no-report"]):
        out = tmp_path / further[0].strip("-")
        done = CliRunner().invoke(command, ["text", folder, "--out", str(out), *further])
        assert done.exit_code == 0, done.output
    for name in ("a", "config", "like"):
        assert load_build(tmp_path / name)["options"]["exclude"] == "*.py,raw/*"
        assert load_manifest(tmp_path / name).ledger.read == 2
