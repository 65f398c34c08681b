"""Ctrl-C on a terminal: one line that says what happened, at once, and no process is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest


def interrupted(repository, arguments, awaited, alone=False):
    """(exit code, output, seconds to stop, processes left) of a command that got Ctrl-C at a text.

    Or that alone got the signal, some seconds later, not its workers.
    """
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", *map(str, arguments)],
        stdin=slave, stdout=slave, stderr=slave, cwd=repository, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    printed, typed = b"", 0.0
    with contextlib.closing(os.fdopen(master, "r+b", buffering=0)) as terminal:
        while select.select([terminal], [], [], 120)[0]:
            try:
                printed += os.read(master, 1 << 16)
            except OSError:  # its end, on Linux
                break
            if awaited in printed and not typed:
                time.sleep(4 if alone else 0)  # the engine starts its workers meanwhile
                typed = time.monotonic()
                if alone:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(master, b"\x03")
        seconds = time.monotonic() - typed
    return process.wait(30), printed.decode(), seconds, processes_of(process.pid)


def processes_of(session):
    """Live processes of a session, which a terminal's shell would still show."""
    pids = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, own = place.read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                pids.append(place.parent.name)
    return pids


BEAM = ["--", "--direct_running_mode=multi_processing", "--direct_num_workers=2"]
ENGINES = [["--worker-type", "threads"], ["--worker-type", "processes"], BEAM]


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_preprocess_stops_at_once_and_resumes(repository, samples, tmp_path, shardmill, engine):
    job = ["preprocess", "images", samples, "--out", tmp_path / "set", "--no-report"]
    code, printed, seconds, left = interrupted(repository, [*job, *engine], b"stage")
    assert code == 130 and not left
    assert seconds < 6  # 2 s on a machine that has nothing else to do
    assert printed.count("interrupted: run the same command again; it resumes") == 1
    assert "Traceback" not in printed and "Error" not in printed
    again = shardmill(*job)
    assert again.returncode == 0 and "root hash" in again.stdout


@pytest.mark.proof
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_a_signal_to_the_launcher_alone_ends_its_workers_too(
    make_images, repository, tmp_path, engine
):
    """Beam would wait for them without end."""
    corpus = make_images(count=1500, side=400)
    job = ["preprocess", "images", corpus, "--out", tmp_path / "set", "--no-report", *engine]
    code, printed, seconds, left = interrupted(repository, job, b"stage", alone=True)
    assert code == 130 and seconds < 6 and not left, printed[-2000:]
    assert printed.count("interrupted:") == 1
    assert "Traceback" not in printed, printed[printed.index("Traceback") :]


@pytest.mark.proof
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stage", ["list", "stage", "plan", "shard"])
def test_preprocess_stops_in_every_stage(repository, tmp_path, stage, engine):
    """Planning trains a tokenizer, which is native code that no signal ends."""
    words = [f"word{(number * number) % 9973}" for number in range(1 << 16)]
    for number in range(40):
        lines = (" ".join(words[n * 7 + number : n * 7 + number + 60]) for n in range(1000))
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    job = ["preprocess", "text", tmp_path / "*.txt", "--per-line", "--no-labels", "--no-report"]
    job += ["--train-tokenizer", "unigram:8000", "--out", tmp_path / "out" / "set"]
    code, printed, seconds, left = interrupted(repository, [*job, *engine], stage.encode())
    assert code == 130 and seconds < 6 and not left, printed[-2000:]
    assert printed.count("interrupted:") == 1 and "Traceback" not in printed


def test_train_stops_at_once_while_tensorflow_is_loaded(repository, tmp_path, text_set):
    job = ["train", text_set(train=[("a", 0)]), "--run-dir", tmp_path / "run"]
    code, printed, seconds, left = interrupted(repository, job, b"TensorFlow")
    assert code == 130 and not left and seconds < 10, printed[-2000:]
    assert printed.count("interrupted: nothing was trained; run the same command again") == 1
    assert "Traceback" not in printed


@pytest.mark.proof
@pytest.mark.parametrize("command", ["read", "doctor", "train"])
def test_commands_on_a_set_stop_at_once(repository, samples, tmp_path, shardmill, command):
    made = shardmill("preprocess", "images", samples, "--out", tmp_path / "set", "--no-report")
    assert made.returncode == 0
    arguments = {
        "read": ["--seconds", 60],
        "doctor": ["--model", "small_cnn"],
        "train": ["--model", "small_cnn", "--epochs", 100],
    }[command]
    awaited = {"read": b"read  ", "doctor": b"measure", "train": b"epoch 1/100"}[command]
    job = [command, tmp_path / "set", *arguments]
    code, printed, _, left = interrupted(repository, job, awaited)
    assert code == 130 and not left and "Traceback" not in printed, printed[-2000:]
    said = "stopped by Ctrl-C" if command == "train" else "interrupted"
    assert len(re.findall(said, printed)) == 1
