"""Manifests with a matching root hash that shardmill did not write: damage, never a traceback."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections import (
    channels,
    classes,
    kept_columns,
    ledger,
    sizes,
    summary,
    tokens,
)
from cli.commands.inspect import inspect
from reader.records.vocabulary import find_vocabulary
from reader.transforms.normalization import find_normalization
from shard_format import (
    DamageError,
    ShardmillError,
    load_build,
    load_manifest,
    naming,
    parse_manifest,
    verify,
)
from shard_format.manifest import root_hash_of
from tests.fixtures.proofs import examples

STATISTICS = {
    "class_counts": {"dress": 2},
    "class_weights": {"dress": 1.5},
    "pixels": {
        "count": 7,
        "mean": [1.0, 2.0, 3.0],
        "std": [1.0, 1.0, 1.0],
        "min": [0, 0, 0],
        "max": [9, 9, 9],
    },
    "tokens": {
        "min": 1,
        "max": 9,
        "mean": 4.5,
        "histogram": {"edges": [1, 2, 16], "counts": [3, 4]},
    },
    "vocabulary": {"size": 10, "used": 4, "coverage": 0.4, "tokens": 9, "unknown": 0.0},
    "packing": {"sequences": 3, "padding_share": 0.5},
}
CONFIG = {
    "vocabulary": {"size": 10, "unknown": None, "pad": 0, "end": 1},
    "clean": [{"step": "length", "min": 3}],
    "pack": 64,
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def real(repository):
    """A manifest of a real set, with every statistic that there is."""
    raw = json.loads((repository / "tests/golden/v1/set" / naming.MANIFEST).read_text())
    raw["splits"]["train"]["statistics"] |= STATISTICS
    raw["config"] |= CONFIG
    return raw


def _text(raw) -> bytes:
    raw = {key: value for key, value in raw.items() if key != "root_hash"}
    return json.dumps({**raw, "root_hash": root_hash_of(raw)}).encode()


def _places(value, path=()):
    """The paths of all values in a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _places(item, (*path, position))


def _replaced(raw, path, value):
    changed = copy.deepcopy(raw)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    if path:
        parent[path[-1]] = value
    return changed if path else value


@given(st.data())
@settings(max_examples=examples(600), deadline=None)
def test_any_value_in_any_place_is_read_or_damage(real, data):
    path = data.draw(st.sampled_from([path for path in _places(real) if path]))
    changed = _replaced(real, path, data.draw(JSON))
    try:
        manifest = parse_manifest(_text(changed), "manifest.json", Path())
    except ShardmillError as error:
        text = str(error).lower()
        # The last one of a manifest that names a list of its shards.
        assert any(word in text for word in ("manifest", "schema", "ledger", "list of shards"))
        return
    assert manifest.root_hash and manifest.summary() and manifest.to_text()


@pytest.fixture(scope="module")
def golden_set(repository, tmp_path_factory):
    """Links to the files of the golden set, and place for a manifest."""
    folder = tmp_path_factory.mktemp("set")
    for path in (repository / "tests/golden/v1/set").iterdir():
        if path.name != naming.MANIFEST:
            (folder / path.name).symlink_to(path)
    return folder


WRONG = st.sampled_from(
    [None, "many", "", {}, {"x": [1]}, [], [None], [1, 2, 3], -1, 0, 1e300, True]
)


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_whoever_loads_it_works_or_says_what_is_wrong(real, golden_set, data):
    path = data.draw(st.sampled_from([path for path in _places(real) if len(path) < 7]))
    wrong = data.draw(WRONG)
    if not path:
        return
    (golden_set / naming.MANIFEST).write_bytes(_text(_replaced(real, path, wrong)))
    for use in (_inspect, _report, verify, _numbers_of_the_reader):
        with contextlib.suppress(ShardmillError):
            use(golden_set)


def _inspect(directory):
    for arguments in ([], ["--all"], ["--json"]):
        inspect.main([str(directory), *arguments], standalone_mode=False)


def _report(directory):
    reported = ReportedSet(directory)
    sizes._of_documents(reported)  # whatever the record type
    for section in (channels, classes, kept_columns, ledger, sizes, summary, tokens):
        section.content(reported)


def _numbers_of_the_reader(directory):
    manifest = load_manifest(directory)
    for read in (
        lambda: find_vocabulary(directory, manifest),
        lambda: find_normalization("zscore", manifest, directory),
        lambda: find_normalization("minmax", manifest, directory),
    ):
        with contextlib.suppress(ShardmillError):
            read()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("splits", "train", "shards", 0, "bytes"),
            "148989",
            r"shards\[0\]\.bytes is '148989', not an",
        ),
        (
            ("splits", "train", "statistics"),
            None,
            r"splits\.train\.statistics is None, not an object",
        ),
        (("files",), [], r"files is \[\], not an object"),
        (("config", "resize"), [1], r"config\.resize is \[1\], not a string"),
        (("ledger", "kept"), 1.5, r"ledger\.kept is 1\.5, not an integer"),
        (
            ("splits", "train", "statistics", "width", "mean"),
            float("nan"),
            "mean is nan, not a number",
        ),
        (
            ("ledger", "read"),
            1 << 63,
            r"ledger\.read is 9223372036854775808, not an integer from 0",
        ),
    ],
)
def test_the_message_says_what_is_wrong_where(real, golden_set, path, value, message):
    (golden_set / naming.MANIFEST).write_bytes(_text(_replaced(real, path, value)))
    with pytest.raises(DamageError, match=message) as caught:
        load_manifest(golden_set)
    assert str(golden_set / naming.MANIFEST) in str(caught.value)


@pytest.mark.parametrize("depth", [40, 400, 200_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"x":', "}")])
def test_nested_brackets_are_damage(real, golden_set, depth, begin, end):
    """Beyond 1,000 levels the parser of Python gives up, beyond some hundreds what prints it."""
    marker = "nested here"
    text = json.dumps({**real, "config": {"x": marker}})
    text = text.replace(json.dumps(marker), begin * depth + "1" + end * depth)
    with contextlib.suppress(RecursionError):  # with a matching root hash, if there can be one
        text = _text(json.loads(text)).decode()
    (golden_set / naming.MANIFEST).write_text(text)
    for use in (load_manifest, verify, _inspect, _report):
        with pytest.raises(DamageError, match="nested"):
            use(golden_set)


def test_a_damaged_build_json_is_as_none(golden_set):
    (golden_set / naming.BUILD).unlink(missing_ok=True)
    for text in ("[" * 200_000, "[]", "{", "null"):
        (golden_set / naming.BUILD).write_text(text)
        assert load_build(golden_set) == {}
