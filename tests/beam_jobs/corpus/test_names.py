"""Record ids of several sources: as long as needed, whatever the order and the place."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.corpus.names import prefixes
from beam_jobs.options import ImageOptions
from beam_jobs.quarantine import export, rejected_records, replay_options
from beam_jobs.run import preprocess
from shard_format import InputError
from tests.fixtures.proofs import examples


def made(root, *names):
    paths = [Path(root, name) for name in names]
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
    return paths


def ids(roots):
    return {root: prefix for prefix, root in prefixes(roots)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x/one"], [""]),
        (["x/one", "x/two"], ["one/", "two/"]),
        (["A/tests", "B/tests"], ["A/tests/", "B/tests/"]),
        (["A/tests", "B/tests", "C/other"], ["A/tests/", "B/tests/", "other/"]),
        (["x/A/t", "y/A/t", "B/t"], ["x/A/t/", "y/A/t/", "B/t/"]),
        (["p/A", "q/A/t", "B/t"], ["A/", "q/A/t/", "B/t/"]),  # A/t/ would be below A/
    ],
)
def test_a_prefix_is_as_long_as_needed(names, expected, tmp_path):
    for place in ("here", "moved/elsewhere"):
        roots = made(tmp_path / place, *names)
        for order in itertools.permutations(roots):
            assert ids(order) == dict(zip(roots, expected, strict=True))
            assert [prefix for prefix, _ in prefixes(order)] == sorted(expected)


_NAMES = st.lists(st.sampled_from("abt"), min_size=1, max_size=4).map("/".join)


@settings(max_examples=examples(60))
@given(st.sets(_NAMES, min_size=2, max_size=6))
def test_no_prefix_begins_another(names):
    with tempfile.TemporaryDirectory() as folder:
        roots = made(folder, *sorted(names))
        nested = any(one in two.parents for one, two in itertools.permutations(roots, 2))
        if nested:
            with pytest.raises(InputError, match="inside of the source"):
                prefixes(roots)
            return
        results = list(ids(roots).values())
        assert len(results) == len(roots)
        assert not any(one.startswith(two) for one, two in itertools.permutations(results, 2))


def test_a_source_twice_is_refused(tmp_path):
    (root,) = made(tmp_path, "a")
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(InputError, match=r"same as the source .* read twice"):
        prefixes([root, tmp_path / "link"])
    file = root / "1.jpg"
    file.touch()
    with pytest.raises(InputError, match="inside of"):
        prefixes([file, root])


def test_names_that_are_not_utf8_have_a_prefix(tmp_path):
    roots = made(tmp_path, os.fsdecode(b"\xff/t"), "b/t")
    assert sorted(ids(roots).values()) == ["//xff/t/", "b/t/"]


def test_repaired_files_of_sources_with_one_name_are_replayed(make_images, tmp_path):
    one, two = make_images(4, name="A/tests"), make_images(4, name="B/tests")
    good = (one / "class0" / "000.jpg").read_bytes()
    for root in (one, two):
        (root / "class0" / "bad.jpg").write_bytes(b"\xff\xd8\xff" + root.parent.name.encode())
    out = tmp_path / "set"
    options = ImageOptions((str(one), str(two)), str(out), dedup="off", workers=1, no_report=True)
    assert preprocess(options).manifest.ledger.quarantined == 2
    export(out, tmp_path / "refused")
    (tmp_path / "refused/files/B/tests/class0/bad.jpg").write_bytes(good)
    changes = {"out": str(tmp_path / "again")}
    report = preprocess(replay_options(out, tmp_path / "refused", (), changes))
    assert (report.manifest.ledger.kept, report.manifest.ledger.quarantined) == (9, 1)
    assert [one.record_id for one in rejected_records(report.out)] == ["A/tests/class0/bad.jpg"]
