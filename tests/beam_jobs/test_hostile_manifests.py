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
from typing import NamedTuple

import pytest

import reader
from beam_jobs import publishing
from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.repair import repair
from beam_jobs.run import preprocess
from cli.commands.inspect import inspect
from shard_format import (
    DamageError,
    Scope,
    ShardmillError,
    load_manifest,
    naming,
    parse_manifest,
    verify_set,
)
from shard_format.checksums import build_text
from shard_format.manifest import root_hash_of
from tests.fixtures.damage import job, make_corpus
from tests.fixtures.generations import Killed

SETS = ("image-1", "image-2", "image-moving", "text-1", "text-2", "text-moving")
KEY = "the name itself"  # ends the path of a name, in place of that of its value
# What build.json has for people, or for a message: no path, and no number to compute with.
SHOWN = ("inputs", "stages", "packages", "machine", "warnings", "started")
FEW = 8  # cases in `make test`
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
            patch.setattr(publishing, "_give_name", _die)
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
    """The content with another value, or with another name for one if the path ends with KEY."""
    changed = copy.deepcopy(raw)
    parent = changed
    for step in path[:-2] if path[-1] == KEY else path[:-1]:
        parent = parent[step]
    if path[-1] == KEY:
        parent[str(value)] = parent.pop(path[-2])
    else:
        parent[path[-1]] = value
    return changed


def _content(directory: Path, file: str, raw) -> bytes:
    """The bytes of a file with this content, and the checksum that belongs to it."""
    if file.endswith(naming.BUILD):
        own = directory / file.replace(naming.BUILD, naming.MANIFEST)
        if not own.exists() or naming.GENERATIONS_DIR not in file:
            return build_text(raw, load_manifest(directory, 0))
        return build_text(raw, load_manifest(own.parent))
    if not file.endswith(naming.COMPACT_STATE):
        with contextlib.suppress(ValueError):  # what has no root hash is damage anyway
            raw = {**raw, "root_hash": root_hash_of(raw)}
    return json.dumps(raw, indent=1).encode() + b"\n"


def _files(directory: Path):
    """The files of a set that name paths or numbers, with their content."""
    for path in sorted(directory.rglob("*.json")):
        if path.name in (naming.MANIFEST, naming.BUILD, "view.json", "compact.json"):
            raw = json.loads(path.read_bytes())
            raw.pop("root_hash", None)
            for shown in SHOWN if path.name == naming.BUILD else ():
                raw.pop(shown, None)
            yield path.relative_to(directory).as_posix(), raw


class _Case(NamedTuple):
    """A value in the place of another one in a file of a set."""

    name: str
    file: str
    path: tuple
    value: object
    raw: object

    def write(self, directory: Path):
        raw = _replaced(self.raw, self.path, self.value)
        content = _content(directory, self.file, raw)
        (directory / self.file).write_bytes(content)


def _cases(hostile_sets):
    """All cases, by the leaf that they replace."""
    values = _wrong_values(hostile_sets / "victim")
    for name in SETS:
        for file, raw in _files(hostile_sets / name):
            keys = [
                (field, *key, KEY) for field in ("files", "splits") for key in _first(raw, field)
            ]
            for path in [*_leaves(raw), *keys]:
                yield [_Case(name, file, path, value, raw) for value in values]


def _first(raw, field):
    return [(key,) for key in list(raw.get(field, ()))[:1]]


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
    """Uses a copy of a set for each case."""
    around = tmp_path / "around"
    shutil.copytree(hostile_sets / "image-2", around / "victim")
    (around / "x").write_text("not of the set")
    before, errors = _tree(around), []
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for case in cases:
        shutil.copytree(hostile_sets / case.name, around / "set")
        case.write(around / "set")
        _use(around / "set", errors, case[:4])
        assert _tree(around) == before, case[:4]
        shutil.rmtree(around / "set")
    assert errors == []
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
    assert grown < MOST_BYTES


def test_a_few_leaves(hostile_sets, tmp_path, capsys):
    chooser = random.Random(0)
    leaves = chooser.sample(list(_cases(hostile_sets)), FEW)
    _check(hostile_sets, tmp_path, [chooser.choice(cases) for cases in leaves])


@pytest.mark.proof
def test_every_field(hostile_sets, tmp_path, capsys):
    """A value of each; the fields of all shards, files and sets count once."""
    fields = {}
    for cases in _cases(hostile_sets):
        file, path = Path(cases[0].file).name, cases[0].path
        steps = [step for step in path if isinstance(step, str)]
        if steps[0] == "files":
            steps = [steps[0], steps[-1]]
        fields.setdefault((file, *steps), []).append(cases)
    chooser = random.Random(1)
    chosen = [chooser.choice(chooser.choice(leaves)) for leaves in fields.values()]
    print(len(chosen), "fields")
    _check(hostile_sets, tmp_path, chosen)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_every_value_in_every_leaf_is_parsed(hostile_sets):
    for cases in _cases(hostile_sets):
        for case in cases:
            if case.file == naming.MANIFEST:
                raw = _replaced(case.raw, case.path, case.value)
                directory = hostile_sets / case.name
                with contextlib.suppress(ShardmillError):
                    parse_manifest(_content(directory, case.file, raw), "it", directory)


@pytest.mark.parametrize("elsewhere", ["../victim/generations/0001", "{victim}", "../set"])
def test_a_generation_elsewhere_is_not_looked_at(hostile_sets, tmp_path, elsewhere):
    """Its files were called extra, and then deleted."""
    for name in ("set", "victim"):
        shutil.copytree(hostile_sets / "image-2", tmp_path / name)
    raw = json.loads((tmp_path / "set" / naming.MANIFEST).read_bytes())
    del raw["root_hash"]
    folder = elsewhere.format(victim=tmp_path / "victim")
    changed = _replaced(raw, ("generations", "sets", 1, "folder"), folder)
    (tmp_path / "set" / naming.MANIFEST).write_bytes(_content(tmp_path, naming.MANIFEST, changed))
    before = _tree(tmp_path)
    for scope in (Scope(), Scope(0.0)):
        with pytest.raises(DamageError, match="not 'generations/0001'"):
            verify_set(tmp_path / "set", scope)
    repair(tmp_path / "set", delete_extra=True)  # the manifest follows from the newest view
    assert verify_set(tmp_path / "set").damages == []
    assert _tree(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("image-2", ("schema", "features", 2, "name"), ""),
        ("text-2", ("config", "vocabulary", "end"), None),
    ],
)
def test_compact_says_what_a_manifest_lacks(hostile_sets, tmp_path, name, path, value):
    shutil.copytree(hostile_sets / name, tmp_path / "set")
    raw = json.loads((tmp_path / "set" / naming.MANIFEST).read_bytes())
    raw.pop("root_hash")
    _Case(name, naming.MANIFEST, path, value, raw).write(tmp_path / "set")
    with pytest.raises(ShardmillError, match="Build the set again"):
        compact(tmp_path / "set")
