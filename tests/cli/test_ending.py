"""Every end of a command with --json prints one object on stdout."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def shard_set(text_set):
    return text_set(train=[("a", 0), ("b", 1)])


@pytest.mark.parametrize(
    ("arguments", "code", "error", "hint"),
    [
        (["inspect", "{tmp}/none"], 3, "There is no directory {tmp}/none.", "Check the path."),
        (["preprocess", "images"], 2, "Missing argument", "'shardmill preprocess images --help'"),
        (["preprocess", "images", "a", "--out", "b", "--dedup", "nera"], 2, "'nera'", "--help"),
        (["train", "{tmp}"], 3, "has no manifest.json", "shardmill preprocess"),
        (["compact", "{set}", "--missing-ok"], 2, "--missing-ok is for", "Pass that too."),
        (["frobnicate"], 2, "No such command", "--help"),
        (["read", "{set}", "--split", "dev"], 2, "Unknown split 'dev'", ""),
    ],
)
def test_an_error_is_an_object_too(shardmill, shard_set, tmp_path, arguments, code, error, hint):
    made = [text.format(tmp=tmp_path, set=shard_set) for text in arguments]
    done = shardmill(*made, "--json")
    ended = json.loads(done.stdout)
    assert done.returncode == ended["code"] == code
    assert error.format(tmp=tmp_path) in ended["error"] and hint in ended["hint"]
    assert ended["error"] in done.stderr or code == 2  # click wraps lines
    assert set(ended) == {"error", "code", "hint"}


def test_a_result_with_a_code_is_the_only_object(shardmill, shard_set):
    next(shard_set.glob("*train*-of*")).unlink()
    done = shardmill("verify", shard_set, "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["intact"] is False


def test_without_json_stdout_stays_empty(shardmill, tmp_path):
    done = shardmill("inspect", tmp_path / "none")
    assert done.returncode == 3 and done.stdout == ""
    # what follows -- is for Beam
    done = shardmill("preprocess", "images", tmp_path, "--out", "b", "--", "--json")
    assert done.returncode == 2 and done.stdout == ""


def test_a_bug_is_an_object_and_a_traceback(shardmill, shard_set, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("7 / 0")

    monkeypatch.setattr("cli.ledger.print_ledger", broken)
    monkeypatch.setattr("shard_format.manifest.Manifest.summary", broken)
    done = shardmill("inspect", shard_set, "--json")
    assert done.returncode == 1 and "Traceback" in done.stderr
    assert json.loads(done.stdout)["error"] == "ZeroDivisionError: 7 / 0"


def test_a_full_disk_is_an_object(shardmill, shard_set, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a/file")

    monkeypatch.setattr("shard_format.manifest.Manifest.summary", full)
    done = shardmill("inspect", shard_set, "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"].startswith("No space left while writing a/file.")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("options", [["--json"], []])
def test_a_signal_ends_with_an_object(shard_set, repository, tmp_path, number, options):
    """The command waits for a pipe, so that the signal comes in the middle of its work."""
    ids = tmp_path / "ids.txt"
    os.mkfifo(ids)
    command = [sys.executable, "-m", "cli.main", "compact", str(shard_set), "--remove", str(ids)]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=repository
    )
    with open(ids, "wb"):  # returns when the command has opened it
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=120)
    assert b"Traceback" not in stderr
    if not options:
        assert stdout == b"" and process.returncode in (130, -signal.SIGTERM)
        return
    ended = json.loads(stdout)
    assert process.returncode == ended["code"] == 128 + number
    assert ended["error"] == ("interrupted" if number == signal.SIGINT else "stopped by SIGTERM")
