"""Damaged files of a --staging folder and of an interrupted build: the same set, at the latest by
running the same command again, and never a crash."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from beam_jobs import preprocess
from shard_format import InputError, ShardmillError, load_manifest, naming, verify
from tests.beam_jobs.stages.merge.builds import Build, forced_levels
from tests.fixtures.damage import job, make_corpus
from tests.fixtures.proofs import proof

AGAIN = "un the same command again"
OPTIONS = {"unit_size": "2KiB", "no_report": True}


def _job(kind: str, folder: Path):
    staging = str(folder / "staging")
    return job(kind, folder / "corpus", folder / "set", staging=staging, **OPTIONS)


def _interrupted(kind: str, folder: Path, levels: int) -> str:
    """Leaves a build in a folder that was killed before its commit; the root hash it would have."""
    make_corpus(kind, folder / "corpus")
    whole = job(kind, folder / "corpus", folder / "whole", **OPTIONS)
    expected = preprocess(whole).manifest.root_hash
    started = Build(_job(kind, folder), choose=forced_levels(levels))
    started.stage()
    plan = started.plan()
    started.shard(plan, started.merge(plan) if plan else [])
    return expected


def _file_kind(path: Path) -> str:
    """Files with one kind are written by the same code."""
    name = path.name if path.parent.name != "units" or "listed" in path.name else "unit"
    return f"{path.parent.name}/{name.partition('-')[0]}{path.suffix}"


def _damage(path: Path, how: str, chooser: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if how == "delete" or not data:
        path.unlink()
        return
    if how == "truncate":
        del data[chooser.randrange(len(data)) :]
    elif how == "zero":
        at = chooser.randrange(len(data))
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    else:
        data[chooser.randrange(len(data))] ^= 1 << chooser.randrange(8)
    path.write_bytes(data)


def _trials(kind: str, folder: Path, levels: int, trials: int, seed: int) -> list[str]:
    """Damages one file after the other; what did not end with the same set."""
    expected = _interrupted(kind, folder, levels)
    for name in ("set", "staging"):
        shutil.copytree(folder / name, folder / "before" / name)
    by_kind: dict[str, list[Path]] = {}
    for path in sorted(folder.joinpath("before").rglob("*")):
        inside = naming.WORK_DIR in path.parts or "staging" in path.parts
        if path.is_file() and inside and path.name != "lock":
            by_kind.setdefault(_file_kind(path), []).append(path)
    chooser, failures = random.Random(seed), []
    kinds = sorted(by_kind)
    for trial in range(trials):
        path = chooser.choice(by_kind[kinds[trial % len(kinds)]])
        how = chooser.choice(["flip", "flip", "truncate", "zero", "delete"])
        for name in ("set", "staging"):
            shutil.rmtree(folder / name)
            shutil.copytree(folder / "before" / name, folder / name)
        damaged = folder / path.relative_to(folder / "before")
        _damage(damaged, how, chooser)
        what = f"{how} {damaged.relative_to(folder)}"
        try:
            try:
                preprocess(_job(kind, folder))
            except InputError as error:
                if AGAIN not in str(error):
                    raise
                preprocess(_job(kind, folder))
        except ShardmillError as error:
            failures.append(f"{what}: {error}")
        except Exception as error:
            failures.append(f"{what}: {error!r}")
        else:
            root_hash = load_manifest(folder / "set").root_hash
            if root_hash != expected or verify(folder / "set")[1]:
                failures.append(f"{what}: another set")
    assert len(kinds) > 9
    return failures


def _check(kind: str, folder: Path, levels: int, trials: int, seed: int) -> None:
    # In a process, since damaged Arrow files have ended one.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(_trials, kind, folder, levels, trials, seed).result() == []


@pytest.mark.parametrize("kind", ["image", pytest.param("text", marks=proof)])
def test_a_damaged_file_of_an_interrupted_build(kind, tmp_path):
    _check(kind, tmp_path, 0, 18, seed=1)


@proof
@pytest.mark.parametrize("levels", [0, 1])
@pytest.mark.parametrize("kind", ["image", "text"])
def test_many_damaged_files_of_an_interrupted_build(kind, levels, tmp_path):
    _check(kind, tmp_path, levels, 150, seed=2)


# By the stage that meets the damage: what is damaged before it.
MET = {
    "plan": ["staging/units/*.arrow"],
    "shard": [
        "staging/units/*.arrow",
        "staging/units/*.tfrecord",
        "set/.shardmill/plan/plan.json",
        "set/.shardmill/plan/*.recipe",
    ],
    "commit": ["staging/units/*.rejects", "set/.shardmill/shards/*.arrow"],
}


@pytest.mark.parametrize(
    ("stage", "pattern"),
    [
        pytest.param(stage, pattern, marks=proof if number else ())
        for stage, patterns in MET.items()
        for number, pattern in enumerate(patterns)
    ],
)
def test_damage_between_two_stages(stage, pattern, tmp_path):
    expected = preprocess(
        job("image", make_corpus("image", tmp_path / "corpus"), tmp_path / "whole", **OPTIONS)
    ).manifest.root_hash
    started = Build(_job("image", tmp_path), choose=forced_levels(0))
    started.stage()

    def damage() -> None:
        started.workspace.compare_again()  # as each step does
        for path in (one for one in tmp_path.glob(pattern) if one.stat().st_size):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 4
            path.write_bytes(data)

    def finish() -> None:
        if stage == "plan":
            damage()
        started.plan()
        if stage == "shard":
            damage()
        results = started.shard(None, [])
        if stage == "commit":
            damage()
        started.commit(results)

    with pytest.raises(InputError, match=AGAIN):
        finish()
    for _ in range(40):  # a file that is damaged is found once it is read
        try:
            root_hash = preprocess(_job("image", tmp_path)).manifest.root_hash
        except InputError as error:
            assert AGAIN in str(error)
        else:
            break
    assert root_hash == expected
    assert verify(tmp_path / "set")[1] == []


def test_a_damaged_listing_is_found_before_it_is_decoded(tmp_path):
    make_corpus("image", tmp_path / "corpus")
    started = Build(_job("image", tmp_path))
    started.stage()
    for path in tmp_path.glob("staging/units/*.json"):
        path.unlink()
    listing = tmp_path / "set" / naming.WORK_DIR / "listing.arrow"
    data = bytearray(listing.read_bytes())
    data[len(data) // 2] ^= 4
    listing.write_bytes(data)
    from beam_jobs.staging.listed_items import listed_batches, read_unit
    from beam_jobs.staging.units import read_units

    units = list(read_units(started.workspace))
    with pytest.raises(InputError, match="during the build"):
        [list(read_unit(started.workspace.listing, unit)) for unit in units]
    with pytest.raises(InputError, match="during the build"):
        list(listed_batches(started.workspace))
