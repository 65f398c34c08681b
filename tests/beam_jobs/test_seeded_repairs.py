"""Seeded damage to any file of sets of all shapes: each is found, and repaired or named.

Never is a set smaller afterwards and taken for whole.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pytest

from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import OPTIONS
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from shard_format import DamageError, ShardmillError, load_manifest, naming, open_index, verify_set
from tests.fixtures.damage import FAULTS, files_of, job, make_corpus
from tests.fixtures.proofs import proof

KINDS = {"image": {}, "text": {"pack": 64}}
SHAPES = ("one", "three", "compacted", "removed")
FAULTS_OF_FILES = ("flip", "truncate", "missing", "swap", "folder", "grow", "zeros")
NAMES = {"one": 12, "two": 15, "three": 18}  # of the sources, with their records
DAMAGES = 63  # of each set: 504 in all
# Written by builds, so that another one has other bytes; and rows in the order of units.
OWN = (naming.BUILD, naming.STORED_RECORDS, naming.READ_ITEMS)


class Built(NamedTuple):
    """A set, and the folder with its sources."""

    directory: Path
    corpora: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Built]:
    """Builds a set once."""
    known: dict[tuple[str, str], Built] = {}

    def build(kind: str, shape: str) -> Built:
        if (kind, shape) not in known:
            known[kind, shape] = _build(kind, shape, tmp_path_factory.mktemp(f"{kind}-{shape}"))
        return known[kind, shape]

    return build


def _build(kind: str, shape: str, folder: Path) -> Built:
    out, corpora = folder / "set", folder / "corpora"
    for name, records in NAMES.items():
        make_corpus(kind, corpora / name, records)
    first, *others = NAMES
    options = {"no_report": False, **KINDS[kind]}
    preprocess(job(kind, corpora / first, out, **options))  # type: ignore[arg-type]
    for name in others if shape != "one" else ():
        source = (str(corpora / name),)
        more = OPTIONS[kind](sources=source, out=str(out), append=True, id_prefix=name, workers=1)
        append(more)
    if shape == "compacted":
        compact(out)
    elif shape == "removed":
        compact(out, _some_ids(out))
    return Built(out, corpora)


def _some_ids(directory: Path) -> list[str]:
    index = open_index(directory / load_manifest(directory).index_file("train"))
    names = index["record_id"]
    if "documents" in index.column_names:
        names = pc.list_flatten(index["documents"])
    return sorted(names.unique().to_pylist())[2:20:6]


def _touched(corpora: Path, chooser: random.Random) -> None:
    for path in sorted(corpora.rglob("*.*")):
        if chooser.random() < 0.5:
            os.utime(path, ns=(chooser.randrange(10**18), chooser.randrange(10**18)))


@contextmanager
def sources(how: str, corpora: Path, chooser: random.Random) -> Iterator[list[str]]:
    """Makes the sources what a repair may find; yields what it is told."""
    kept = corpora.with_name("kept")
    os.rename(corpora, kept)  # with its times
    try:
        if how == "there":
            corpora.symlink_to(kept)
            yield []
        elif how == "touched":
            shutil.copytree(kept, corpora)  # with the times
            _touched(corpora, chooser)
            yield []
        else:
            new = corpora.with_name("new")
            shutil.copytree(kept, new, copy_function=shutil.copy)
            if how == "moved":
                shutil.rmtree(new)
                shutil.copytree(kept, new)
            yield [str(new / name) for name in NAMES]
    finally:
        for folder in (corpora, corpora.with_name("new")):
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)
        os.rename(kept, corpora)


def damaged(directory: Path) -> bool:
    """Whether verification finds anything but README.md; a report that is missing is a note."""
    try:
        verified = verify_set(directory)
    except ShardmillError:
        return True
    return any(one.file != naming.CARD for one in (*verified.damages, *verified.minor))


def check(one: Built, work: Path, seed: str) -> tuple[str, str]:
    """Damages a copy of a set and repairs it; returns what became of it, and why."""
    chooser = random.Random(seed)
    fault = chooser.choice(FAULTS_OF_FILES)
    how = chooser.choice(("there", "touched", "copied", "moved"))
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(one.directory, work, symlinks=True)
    names = FAULTS[fault](work, work, chooser)
    if names is None:
        return "none", ""
    if chooser.random() < 0.3:
        names |= FAULTS["missing"](work, work, chooser) or set()
    names.discard(naming.CARD)  # it may be edited, and stays as it is
    if not names:
        return "none", ""
    what = f"{seed}: {fault} of {', '.join(sorted(names))}, sources {how}"
    assert damaged(work), what
    whole = load_manifest(one.directory).root_hash
    with sources(how, one.corpora, chooser) as given:
        try:
            done = repair(work, given)
        except DamageError as error:
            assert damaged(work), what
            return "named", f"{what}: {error}"
    if done.left or done.lost:
        assert damaged(work), what
        assert load_manifest(work).root_hash == whole, what
        return "named", f"{what}: {done.reason}"
    assert not damaged(work), what
    assert load_manifest(work).root_hash == whole, what
    own = {*OWN, naming.CARD}
    if any(name.endswith(naming.BUILD) for name in names):
        own.add(naming.CROISSANT)  # has the date of the build, which is lost with it
    for name in {*files_of(one.directory), *files_of(work)}:
        if not name.endswith(tuple(own)):
            assert (work / name).read_bytes() == (one.directory / name).read_bytes(), (what, name)
    return "repaired", what


def check_all(one: Built, work: Path, seeds: list[str]) -> tuple[Counter[str], list[str]]:
    """Counts what became of some damages; and says what was named."""
    results = [check(one, work, seed) for seed in seeds]
    counts = Counter(result for result, _ in results)
    print(dict(counts))
    named = [why for result, why in results if result == "named"]
    print(*named, sep="\n")
    return counts, named


@pytest.mark.parametrize(
    ("kind", "shape"), [("image", "three"), pytest.param("text", "removed", marks=proof)]
)
def test_some_damages(built, tmp_path, kind, shape):
    check_all(built(kind, shape), tmp_path / "set", [f"{kind} {shape} {n}" for n in range(6)])


@proof
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_five_hundred_damages(built, tmp_path, record_property, kind, shape):
    seeds = [f"{kind} {shape} {number}" for number in range(DAMAGES)]
    counts, named = check_all(built(kind, shape), tmp_path / "set", seeds)
    for name, number in counts.items():
        record_property(name, number)
    assert counts["none"] < DAMAGES / 10
    if shape != "removed":  # no file but build.json says how a set was built
        assert all(naming.BUILD in why for why in named)
