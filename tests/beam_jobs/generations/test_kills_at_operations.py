"""A kill at file operations of every command that changes a set, then what verify advises."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from shard_format import load_manifest
from tests.fixtures.damage import make_corpus
from tests.fixtures.killed_commands import KILLED, Commands

KILLS = 60  # of each command
QUICK_KILLS = 3  # of each, in 'make test'


class Case(NamedTuple):
    """A set, and a command that changes it.

    Attributes:
        command: Arguments, with `{set}` for the set.
        build: Makes the set.
    """

    command: Sequence[str]
    build: Callable[[Path, Commands], Path]


def _build(kind: str, generations: int, folder: Path, commands: Commands) -> Path:
    out = folder / "base"
    options = ("--resize", "shorter:16") if kind == "images" else ("--pack", "64")
    tokens = () if kind == "images" else ("--train-tokenizer", "bpe:300")
    for number in range(generations):
        singular = {"images": "image", "text": "text"}[kind]
        source = make_corpus(singular, folder / f"part{number}", 24 + 3 * number)
        first = (*options, *tokens, "--dedup", "near") if not number else ("--append",)
        prefix = ("--id-prefix", f"part{number}")
        _check(commands.run("preprocess", kind, str(source), "--out", str(out), *first, *prefix))
    return out


def _check(ended) -> None:
    assert ended.code == 0, ended


def _images(folder: Path, commands: Commands) -> Path:
    return _build("images", 3, folder, commands)


def _one_generation(folder: Path, commands: Commands) -> Path:
    make_corpus("image", folder / "part1", 27)
    return _build("images", 1, folder, commands)


def _packed(folder: Path, commands: Commands) -> Path:
    return _build("text", 2, folder, commands)


def _with_ids(folder: Path, commands: Commands) -> Path:
    (folder / "ids.txt").write_text("part0/class0/003.jpg\npart2/class1/004.jpg\n")
    return _images(folder, commands)


def _lost(folder: Path, commands: Commands) -> Path:
    """A set that has lost records, whose files would be read again."""
    out = _build("images", 1, folder, commands)
    (folder / "ids.txt").write_text("part0/class0/003.jpg\npart0/class1/001.jpg\n")
    _check(commands.run("compact", str(out), "--remove", str(folder / "ids.txt"), "--missing-ok"))
    for file in (folder / "part0").rglob("*.jpg"):
        os.utime(file, ns=(10**18, 10**18))
    return out


def _rejecting(folder: Path, commands: Commands) -> Path:
    out = _build("images", 2, folder, commands)
    _check(commands.run("quarantine", "export", str(out), "--to", str(folder / "refused")))
    for file in (folder / "refused" / "files").rglob("*.jpg"):
        shutil.copy(folder / "part0" / "class1" / "001.jpg", file)
    return out


def _damaged(folder: Path, commands: Commands) -> Path:
    out = _build("images", 2, folder, commands)
    chooser = random.Random(0)
    for name in ("*-00000-of-*", "index/train.arrow", "quarantine/*", "fingerprints/records.arrow"):
        file = min(out.glob(name))
        data = bytearray(file.read_bytes())
        data[chooser.randrange(len(data))] ^= 1
        file.write_bytes(data)
    (out / "report.html").unlink()
    return out


AGAIN = ("preprocess", "images", "{folder}/part0", "--out", "{set}", "--id-prefix", "part0")
APPEND = ("preprocess", "images", "{folder}/part1", "--out", "{set}", "--append")
FIRST = (*AGAIN, "--resize", "shorter:16", "--dedup", "near")
CASES = {
    "papers": Case((*FIRST, "--license", "MIT"), _one_generation),
    "append": Case((*APPEND, "--id-prefix", "x"), _one_generation),
    "append-after-removal": Case((*AGAIN, "--append"), _lost),
    "overwrite-after-removal": Case((*AGAIN, "--resize", "shorter:16", "--overwrite"), _lost),
    "compact": Case(("compact", "{set}"), _images),
    "compact-packed": Case(("compact", "{set}"), _packed),
    "remove": Case(("compact", "{set}", "--remove", "{folder}/ids.txt", "--missing-ok"), _with_ids),
    "replay": Case(("quarantine", "replay", "{set}", "{folder}/refused"), _rejecting),
    "repair": Case(("repair", "{set}"), _damaged),
}


def _kill_and_follow(case: Case, folder: Path, commands: Commands, kills: int) -> int:
    """Kills a command at file operations, spread over all; returns the number of kills."""
    base, out = case.build(folder, commands), folder / "set"
    command = [part.format(set=out, folder=folder) for part in case.command]

    def files() -> list[str]:
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("set*/**/*"))

    def begin() -> None:
        for place in folder.glob("set*"):
            shutil.rmtree(place)
        shutil.copytree(base, out)

    begin()
    whole = commands.run(*command)
    _check(whole)
    root_hash, expected = load_manifest(out).root_hash, files()
    _check(commands.run("verify", str(out)))
    count = whole.operations + 1
    operations = range(count) if count <= kills else random.Random(0).sample(range(count), kills)
    for operation in sorted(operations):
        begin()
        killed = commands.run(*command, kill_at=operation)
        assert killed.code == KILLED, (operation, killed)
        seen = commands.run("verify", str(out))
        trace = [(operation, count), seen]
        assert seen.code in (0, 4), trace
        if operation % 2:  # nothing of a command that can be completed is extra
            trace.append(commands.run("repair", str(out), "--delete-extra"))
            seen = commands.run("verify", str(out))
            trace.append(seen)
        for advised in seen.advised():
            trace.append((advised, commands.run(*advised)))
        trace.append(commands.run(*command))
        trace.append(commands.run("verify", str(out)))
        assert trace[-1].code == trace[-2].code == 0, trace
        assert load_manifest(out).root_hash == root_hash, trace
        assert files() == expected, trace
    return len(operations)


@pytest.mark.parametrize("name", ["append", "compact", "replay", "papers"])
def test_a_kill_costs_nothing(name, tmp_path, commands):
    _kill_and_follow(CASES[name], tmp_path, commands, QUICK_KILLS)


@pytest.mark.proof
@pytest.mark.parametrize("name", CASES)
def test_no_kill_costs_anything(name, tmp_path, commands, record_property):
    record_property("kills", _kill_and_follow(CASES[name], tmp_path, commands, KILLS))
