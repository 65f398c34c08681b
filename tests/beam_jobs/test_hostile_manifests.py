"""Manifests that somebody wrote to do harm: a command works, or says what is wrong.

Every leaf of real manifests is replaced by paths that lead elsewhere, by numbers that no set has,
and by values of other types; the root hash is right. Nothing outside of the set may change.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import resource
import shutil
from pathlib import Path

import pytest

import reader
from beam_jobs.generations import settling
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from cli.commands.inspect import inspect
from shard_format import Scope, ShardmillError, naming, verify_set
from shard_format.manifest import _root_hash
from tests.fixtures.damage import job, make_corpus
from tests.fixtures.generations import Killed

SETS = ("image-1", "image-2", "image-moving", "text-1", "text-2", "text-moving")
FEW = 40  # cases in `make test`
MOST_BYTES = 1 << 30  # that the memory of all cases may grow by


@pytest.fixture(scope="module")
def hostile_sets(tmp_path_factory):
    """Sets of one and two generations, and of a killed compaction; not to be changed."""
    root = tmp_path_factory.mktemp("hostile")
    for kind in ("image", "text"):
        corpus = make_corpus(kind, root / f"{kind}-corpus", 12)
        more = make_corpus(kind, root / f"{kind}-more", 16)
        own = {"no_report": True} | ({} if kind == "image" else {"pack": 32})
        for number in "12":
            preprocess(job(kind, corpus, root / f"{kind}-{number}", **own))
        given = {"append", "id_prefix", "sources"}
        append(job(kind, more, root / f"{kind}-2", append=True, id_prefix="more", **own), given)
        shutil.copytree(root / f"{kind}-2", root / f"{kind}-moving")
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(settling, "_give_name", _die)
            compact(root / f"{kind}-moving")
    return root


def _die(*args):
    raise Killed


def _leaves(value, path=()):
    """The paths of all values in a JSON value that are no object or list; of a list, the ends."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for position in sorted({0, len(value) - 1}):
            yield from _leaves(value[position], (*path, position))
    else:
        yield path


def _wrong_values(outside: Path):
    """Values for any leaf."""
    paths = ["../victim", f"../victim/{naming.MANIFEST}", str(outside), "a/../../victim", "", "."]
    paths += ["..", "\0", "x" * 300, "generations/0001/../../../victim", "index/\ud800"]
    numbers = [-1, 0, 2**31, 2**62, 2**63, 10**30, 0.5, 1e300, float("nan"), float("inf")]
    return [*paths, *numbers, True, None, [], [1], {}, {"x": 1}]


def _replaced(raw, path, value):
    changed = copy.deepcopy(raw)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return changed


def _renamed_keys(raw, value):
    """Manifests in which a key that is a name or a path is another one."""
    if not isinstance(value, str):
        return
    for place in (("files",), ("splits",)):
        changed = copy.deepcopy(raw)
        for step in place[:-1]:
            changed = changed[step]
        named = changed[place[-1]]
        named[value] = named.pop(next(iter(named)))
        yield (*place, "key"), changed


def _cases(hostile_sets, name):
    """(where, the content of a manifest.json) of all cases of a set."""
    raw = json.loads((hostile_sets / name / naming.MANIFEST).read_text())
    del raw["root_hash"]
    values = _wrong_values(hostile_sets / "victim")
    for value in values:
        for path in _leaves(raw):
            yield (*path, value), lambda path=path, value=value: _replaced(raw, path, value)
        for path, changed in _renamed_keys(raw, value):
            yield (*path, value), lambda changed=changed: changed


def _text(raw) -> bytes:
    with contextlib.suppress(ValueError):  # what has no root hash is damage anyway
        raw = {**raw, "root_hash": _root_hash(raw)}
    return json.dumps(raw, indent=1).encode() + b"\n"


def _use(directory: Path, errors: list[str], where: object) -> None:
    """Runs every command that reads or changes a set."""
    uses = {
        "verify": lambda: verify_set(directory),
        "quick": lambda: verify_set(directory, Scope(0.0)),
        "inspect": lambda: inspect.main([str(directory), "--json"], standalone_mode=False),
        "load": lambda: reader.load(str(directory), split="train", batch_size=2, cache="off"),
        "repair": lambda: repair(directory, delete_extra=True),
        "compact": lambda: compact(directory),
    }
    for name, use in uses.items():
        try:
            use()
        except ShardmillError:
            continue
        except Exception as error:
            errors.append(f"{name} {where!r:.200}: {type(error).__name__} {error!s:.200}")


def _tree(root: Path):
    """What is in a folder, without the set in it."""
    return {
        path.relative_to(root): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] != "set"
    }


def _check(hostile_sets, tmp_path, cases):
    """Uses a copy of a set for each case; cases are (set, where, content)."""
    around = tmp_path / "around"
    shutil.copytree(hostile_sets / "image-2", around / "victim")
    (around / "x").write_text("not of the set")
    before, errors = _tree(around), []
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, where, text in cases:
        shutil.copytree(hostile_sets / name, around / "set")
        where[0](around / "set").write_bytes(text())
        _use(around / "set", errors, (name, *where[1:]))
        assert _tree(around) == before, where
        shutil.rmtree(around / "set")
    assert errors == []
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
    assert grown < MOST_BYTES


def _manifest_of(directory):
    return directory / naming.MANIFEST


def _all_cases(hostile_sets):
    for name in SETS:
        for where, make in _cases(hostile_sets, name):
            yield name, (_manifest_of, *where), lambda make=make: _text(make())


def test_a_few_leaves(hostile_sets, tmp_path, capsys):
    cases = list(_all_cases(hostile_sets))
    _check(hostile_sets, tmp_path, random.Random(0).sample(cases, FEW))


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_every_leaf(hostile_sets, tmp_path, capsys):
    _check(hostile_sets, tmp_path, _all_cases(hostile_sets))
