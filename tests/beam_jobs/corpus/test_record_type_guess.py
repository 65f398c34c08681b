"""`shardmill preprocess photos`: which record type was left out."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from beam_jobs.corpus.record_type_guess import check_is_no_source
from shard_format import UsageError

from .conftest import FORMS, JPEG, tar_of, zip_of


def commands(*arguments):
    with pytest.raises(UsageError) as error:
        check_is_no_source(list(map(str, arguments)))
    message, *lines = str(error.value).split("\n  ")
    return message, [shlex.split(line) for line in lines]


def test_images_are_recognized(tmp_path):
    (tmp_path / "my photos" / "cat").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "my photos" / "cat" / f"{number}").write_bytes(JPEG)
    (tmp_path / "my photos" / "README.md").write_text("About them.")
    (tmp_path / "my photos" / "notes.txt").write_text("Some words.")
    source = str(tmp_path / "my photos")
    message, lines = commands(source, "--resize", "none")
    assert message == f"{source} looks like images (3 of 4 files looked at). Run:"
    start = ["shardmill", "preprocess", "images", source, "--resize", "none"]
    assert lines == [[*start, "--out", "SET"]]
    assert commands(source, "--resize", "none", "--out=x")[1] == [[*start, "--out=x"]]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.html", "a.csv", "README"])
def test_documents_are_recognized(name, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "1").write_text("Some words.")
    (tmp_path / "corpus" / name).write_text('{"text": "Some words."}')
    assert commands(tmp_path / "corpus")[1][0][2] == "text"
    assert commands(tmp_path / "corp*" / "1")[1][0][2] == "text"


def test_archives_are_looked_into(tmp_path):
    for make, suffix in ((zip_of, "zip"), (tar_of, "tar")):
        images = make(tmp_path / f"i.{suffix}", {"a/1.jpg": b"", "LICENSE": b""})
        assert commands(images)[1][0][2] == "images"
        texts = make(tmp_path / f"t.{suffix}", {"a/1.txt": b"", "LICENSE": b""})
        assert commands(texts)[1][0][2] == "text"
    assert commands(tar_of(tmp_path / "i.tar.gz", {"1.png": b""}, "w:gz"))[1][0][2] == "images"


def test_what_is_not_clear_has_a_command_for_each(make_images, tmp_path):
    (tmp_path / "empty").mkdir()
    tables, _ = FORMS["parquet"](make_images(3), tmp_path / "tables")
    for source in (tmp_path / "empty", tables):
        message, lines = commands(source)
        assert f"missing, and {source} does not show it" in message
        assert [line[2] for line in lines] == ["images", "text"]


def test_no_path_is_left_to_click(tmp_path):
    check_is_no_source(["imagse"])
    check_is_no_source([str(tmp_path / "*.none")])


def test_the_command_says_so_without_loading_beam(tmp_path):
    (tmp_path / "1.jpg").write_bytes(JPEG)
    program = (
        "import sys\nfrom cli.main import main\n"
        "try:\n    main()\nfinally:\n    assert 'apache_beam' not in sys.modules"
    )
    arguments = [sys.executable, "-c", program, "preprocess", str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"shardmill preprocess images {tmp_path} --out SET\n" in done.stderr
