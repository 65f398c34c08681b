"""The command line as a person uses it: processes, exit codes, output."""

from __future__ import annotations

import json
import re
import resource
import shlex
import signal
import subprocess
import sys
import time

import click
import pytest


@pytest.fixture(scope="module")
def shard_set(tmp_path_factory, repository, samples):
    """(directory, the completed process that built it)."""
    out = tmp_path_factory.mktemp("cli") / "set"
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "preprocess", "images", str(samples), "--out", str(out)]
        + ["--resize", "shorter:64", "--num-shards", "3"],
        capture_output=True,
        text=True,
        check=False,
        cwd=repository,
        timeout=120,
    )
    return out, done


def _seconds_of_children():
    """Processor time, which other work on the machine hardly changes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("command", [[], ["preprocess", "images"], ["preprocess", "text"]])
def test_help_is_fast_and_loads_nothing_heavy(repository, command):
    heavy = {"tensorflow", "keras", "apache_beam", "cv2", "rich", "tokenizers", "ftfy"}
    if not command:
        heavy |= {"numpy", "pyarrow", "trainer", "beam_jobs", "reader"}
    program = (
        f"import sys; sys.argv = {['shardmill', *command, '--help']!r}\n"
        "from cli.main import shardmill\n"
        "try: shardmill()\n"
        "except SystemExit: pass\n"
        f"print('LOADED', sorted({heavy!r} & set(sys.modules)))\n"
    )
    seconds = []
    for _ in range(3):
        begun = _seconds_of_children()
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            cwd=repository,
            check=True,
        )
        seconds.append(_seconds_of_children() - begun)
        assert "LOADED []" in done.stdout
    assert min(seconds) < 0.5


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["demo"],
        ["preprocess"],
        ["preprocess", "images"],
        ["preprocess", "text"],
        ["inspect"],
        ["verify"],
        ["repair"],
        ["read"],
    ]
    + [["train"], ["report"], ["evaluate"], ["export-index"]],
)
def test_every_command_has_help_with_examples(shardmill, command):
    done = shardmill(*command, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5
    if command[-1:] not in ([], ["demo"], ["preprocess"]):
        assert "Examples:" in done.stdout
        assert "shardmill " + " ".join(command) in done.stdout


def test_preprocess_prints_a_ledger(shard_set):
    _, done = shard_set
    assert done.returncode == 0, done.stderr
    for text in ("read", "kept", "duplicates", "quarantined", "not-an-image", "root hash", "next"):
        assert text in done.stdout
    assert "records/s" in done.stdout
    assert "Traceback" not in done.stderr


def test_json_is_the_last_line(shard_set, shardmill):
    out, _ = shard_set
    for command in ("inspect", "verify"):
        done = shardmill(command, out, "--json")
        assert done.returncode == 0
        summary = json.loads(done.stdout.splitlines()[-1])
        parts = ("kept", "duplicates", "filtered", "quarantined")
        assert summary["read"] == sum(summary[part] for part in parts) == 324
        assert summary["splits"]["train"]["shards"] == 3
        assert len(summary["root_hash"]) == 64


def test_inspect_fits_a_terminal(shard_set, shardmill):
    terminal = {"COLUMNS": "80", "PATH": ""}
    done = shardmill("inspect", shard_set[0], env=terminal)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert max(map(len, lines[:-1])) <= 80 and len(lines) <= 24  # the last one has a path
    classes = r"^classes    10; in train \d+ \(.*\) to \d+ records \(.*\)$"
    assert re.search(classes, done.stdout, re.MULTILINE)
    assert lines[-1] == f"more       shardmill inspect {shard_set[0]} --all"
    done = shardmill("inspect", shard_set[0], "--all", env=terminal)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "t-shirt" in done.stdout


def test_the_same_command_again_does_nothing(shard_set, shardmill, samples):
    out, _ = shard_set
    again = shardmill(
        "preprocess", "images", samples, "--out", out, "--resize", "shorter:64", "--num-shards", 3
    )
    assert again.returncode == 0
    assert "holds this very set already" in again.stdout


def test_verify_finds_damage(shard_set, shardmill, tmp_path):
    import shutil

    out = tmp_path / "copy"
    shutil.copytree(shard_set[0], out)
    assert shardmill("verify", out).returncode == 0
    shard = next(out.glob("*train*00001-of*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.write_bytes(data)
    done = shardmill("verify", out)
    assert done.returncode == 4
    assert shard.name in done.stdout and "at byte" in done.stdout
    report = json.loads(shardmill("verify", out, "--json").stdout.splitlines()[-1])
    assert report["intact"] is False
    assert report["damages"][0]["file"] == shard.name


@pytest.mark.proof
def test_read_measures(shard_set, shardmill):
    done = shardmill("read", shard_set[0], "--seconds", 1, "--image-size", 48, "--json")
    assert done.returncode == 0, done.stderr
    rate = json.loads(done.stdout.splitlines()[-1])
    assert rate["records_per_second"] > 10
    assert "Traceback" not in done.stderr


def test_damage_while_reading_is_damage(shard_set, shardmill, tmp_path):
    import shutil

    out = tmp_path / "copy"
    shutil.copytree(shard_set[0], out)
    shard = next(out.glob("*train*00001-of*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.write_bytes(data)
    done = shardmill("read", out, "--seconds", 1, "--image-size", 32, "--cache", "off")
    assert done.returncode == 4
    assert "shardmill verify" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.proof  # in one process it is tested in tests/trainer/checkpointing/test_resume.py
@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")]
)
def test_signals_stop_a_training_at_a_checkpoint(shard_set, repository, tmp_path, number, name):
    run = tmp_path / "a run"
    arguments = ["train", str(shard_set[0]), "--run-dir", str(run), "--image-size", "16"]
    arguments += ["--epochs", "2000", "--checkpoint-minutes", "1e-9", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=repository,
    )
    with process:
        while process.poll() is None and not (run / "checkpoints" / "checkpoint").exists():
            time.sleep(0.05)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 128 + number, stderr[-3000:]
    ended = json.loads(stdout)
    assert ended["code"] == 128 + number and ended["error"].startswith(f"stopped by {name} after ")
    assert shlex.split(ended["hint"]) == ["shardmill", *arguments]
    *_, said, command = stderr.splitlines()
    assert said.startswith(f"stopped by {name} after ")
    assert said.endswith("which are checkpointed. The same command resumes it:")
    assert shlex.split(command) == ["shardmill", *arguments]
    assert not (run / "model.keras").exists()


@pytest.mark.proof
def test_train_then_train_again(shard_set, shardmill, tmp_path):
    arguments = ("train", shard_set[0], "--run-dir", tmp_path / "run", "--image-size", 32)
    done = shardmill(*arguments, "--epochs", 2)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model.keras").exists()
    assert "validation none" in done.stdout and "tensorboard --logdir" in done.stdout
    assert "has no split validation, and test is not used to choose a model" in done.stderr
    assert f"next       shardmill evaluate {tmp_path / 'run'}" in done.stdout
    measured = shardmill("evaluate", tmp_path / "run", "--json")
    assert measured.returncode == 0, measured.stderr
    assert json.loads(measured.stdout.splitlines()[-1])["split"] == "test"
    again = shardmill(*arguments, "--epochs", 2, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["epochs"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["frobnicate"], 2, "No such command"),
        (["preprocess", "images"], 2, "Missing argument"),
        (["preprocess", "images", "nowhere", "--out", "{tmp}/x"], 3, "nowhere does not exist"),
        (["preprocess", "images", "{tmp}", "--out", "{tmp}-x"], 3, "Found no files in"),
        (
            ["preprocess", "images", "a", "--out", "b", "--dedup", "nera"],
            2,
            "'near', 'off'. Did you mean 'near'?",
        ),
        (["preprocess", "images", "a", "--out", "b", "--resize", "half"], 2, "--resize is 'half'"),
        (["preprocess", "images", "a", "--out", "b", "--split", "train=2"], 2, "--split must be"),
        (["preprocess", "images", "a", "--out", "b", "--quality", "x"], 2, "whole number"),
        (["preprocess", "images", "a", "--out", "b", "--", "--nonsense"], 2, "--nonsense"),
        (["inspect", "{tmp}/none"], 3, "no directory"),
        (["inspect", "{tmp}"], 3, "shardmill preprocess images"),
        (["verify", "{tmp}"], 3, "manifest.json"),
        (["report", "{tmp}/none"], 3, "no directory"),
        (["report", "{tmp}"], 3, "shardmill preprocess images"),
        (["report", "{set}", "--out", "{tmp}"], 2, "is a directory"),
        (["report", "{set}", "--out", "{tmp}/no/page.html"], 3, "Choose another file with --out"),
        (["read", "{tmp}"], 3, "manifest.json"),
        (["train", "{tmp}"], 3, "manifest.json"),
        (["train", "{set}", "--model", "resnet5"], 2, "Did you mean 'resnet50'"),
        (["train", "{set}", "--model", "nosuch.module:build"], 2, "nosuch"),
        (["train", "{set}", "--validation-split", "dev"], 2, "Unknown validation split 'dev'"),
        (["read", "{set}", "--split", "dev"], 2, "Unknown split 'dev'"),
        (["read", "{set}", "--augment", "standrad"], 2, "standard"),
        (["read", "{set}", "--batch-size", "5000"], 2, "--batch-size"),
    ],
)
def test_mistakes_have_one_clear_message(shardmill, shard_set, tmp_path, arguments, code, message):
    made = [text.format(tmp=tmp_path, set=shard_set[0]) for text in arguments]
    done = shardmill(*made)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_the_beam_way_gives_the_same_set(shardmill, samples, tmp_path, shard_set):
    job = (samples, "--out", tmp_path / "set", "--resize", "shorter:64", "--num-shards", "3")
    beam = ("--runner=DirectRunner", "--direct_num_workers=3")
    done = shardmill("preprocess", "images", *job, "--json", "--", *beam)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    ours = json.loads((shard_set[0] / "manifest.json").read_text())
    assert summary["root_hash"] == ours["root_hash"]


def test_another_runner_is_honoured(shardmill, samples, tmp_path):
    """A runner that does not exist must not silently become the local one."""
    out = tmp_path / "set"
    done = shardmill("preprocess", "images", samples, "--out", out, "--", "--runner=NoSuchRunner")
    assert done.returncode != 0
    assert "NoSuchRunner" in done.stderr


def test_the_list_of_commands_has_every_command(repository):
    """Their modules are imported only to run them, so the list could name others."""
    from cli.main import _COMMANDS, shardmill

    files = {path.stem for path in (repository / "cli" / "commands").glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in _COMMANDS} == files
    with click.Context(shardmill) as context:
        for name in _COMMANDS:
            _, command, rest = shardmill.resolve_command(context, [name, "--help"])
            assert command.name == name and command.callback and rest == ["--help"]
