"""The pieces of a walk are the walk, wherever it was cut."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_jobs.corpus.discovery import find_files, whole_corpus
from beam_jobs.corpus.pieces import CorpusPiece, listing_weight
from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.walk import CorpusWalk
from beam_jobs.options import ImageOptions
from beam_jobs.record_types import RECORD_TYPES
from foundation import storage
from tests.fixtures.proofs import examples

NAME = st.sampled_from(["a", "b.jpg", ".c", "d e", "Thumbs.db", "z\udcff", "é", "10", "9"])
PATHS = st.sets(st.lists(NAME, min_size=1, max_size=4).map("/".join), max_size=30)


def weigh(item):
    return 1 + item.size


def in_pieces(roots, most, least=1, runs=1000, **options):
    """All files with their folders in order, the ids that were ignored, and the pieces."""
    waiting, files, ignored, pieces = [whole_corpus(roots)], [], [], []
    while waiting:
        piece = CorpusPiece.of_bytes(waiting.pop().to_bytes())
        walk = CorpusWalk(ignored.append, weigh, **options)
        own = list(walk.files(piece, most))
        assert not own or sum(weigh(one.item) for one in own[:-1]) < most
        files += own
        rest = list(walk.rest(least, runs))
        assert all(weight > 0 and piece.entries for piece, weight in rest)
        waiting += [piece for piece, _ in reversed(rest)]
        pieces.append(piece)
    return files, ignored, pieces


def at_once(roots, **options):
    ignored = []
    return list(find_files(roots, ignored.append, **options)), ignored


def make_tree(folder, paths):
    for number, path in enumerate(sorted(paths)):
        if any(other.startswith(f"{path}/") for other in paths):
            continue  # no folder can have the name of a file
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"x" * (number % 3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150))
@given(
    trees=st.lists(PATHS, min_size=1, max_size=3),
    most=st.integers(1, 12),
    least=st.integers(1, 5),
    runs=st.integers(1, 4),
    remote=st.booleans(),
)
def test_pieces_are_what_one_walk_finds(trees, most, least, runs, remote, memory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    memory.objects.clear()
    for number, paths in enumerate(trees):
        (folder / f"tree{number}").mkdir()
        make_tree(folder / f"tree{number}", paths)
    roots = [folder / f"tree{number}" for number in range(len(trees))]
    local = in_pieces(roots, most, least, runs)
    assert local[:2] == at_once(roots)
    if remote and all(trees):  # an object store has no empty folder
        memory.copy(folder, "bucket")
        urls = [storage.Url(f"memory://bucket/{root.name}") for root in roots]
        there = in_pieces(urls, most, least, runs)
        assert there[:2] == at_once(urls)
        shown = [[one.item.record_id for one in files] for files in (there[0], local[0])]
        assert shown[0] == shown[1]
        assert len(there[2]) == len(local[2])


def test_a_folder_of_a_million_archives_is_divided(tmp_path):
    for number in range(100):
        (tmp_path / f"{number:03d}.tar").write_bytes(b"x" * 9)
    files, _, pieces = in_pieces([tmp_path], most=100, least=50)
    assert [one.item for one in files] == [one.item for one in at_once([tmp_path])[0]]
    # Ten in the first piece, and five in each run of the others: a file weighs 10.
    assert [len(piece.entries) for piece in pieces[1:]] == [5] * 18


@pytest.mark.parametrize(
    ("name", "size", "source", "weight"),
    [
        ("photo.jpg", 1 << 30, "class-folders", 1),
        ("small.tar", 1 << 20, "tar", 1),
        ("large.tar.gz", 1 << 30, "tar", 65537),
        ("table.parquet", 1 << 30, "parquet", 4097),
    ],
)
def test_a_large_file_weighs_what_looking_into_it_takes(name, size, source, weight):
    extractor = RECORD_TYPES["image"](ImageOptions(("in",), "out", source=source)).extractor
    assert listing_weight(SourceItem(name, name.encode(), None, size, 0), extractor) == weight


def test_folders_are_estimated_by_those_before_them(tmp_path):
    make_tree(tmp_path, [f"class{label}/{number}" for label in range(20) for number in range(30)])
    walk = CorpusWalk(print, lambda _: 1)
    assert len(list(walk.files(whole_corpus([tmp_path]), 30))) == 30
    rest = list(walk.rest(least=90, runs=1000))
    assert [(len(piece.entries), weight) for piece, weight in rest] == [(3, 90)] * 6 + [(1, 30)]


def test_many_sources_are_divided(tmp_path):
    make_tree(tmp_path, [f"{number:03d}.jpg" for number in range(40)])
    roots = sorted(tmp_path.iterdir())
    files, _, pieces = in_pieces(roots, most=4, runs=3)
    assert files == at_once(roots)[0]
    assert len(pieces) > 3


def test_links_are_followed_as_in_one_walk(tmp_path):
    make_tree(tmp_path / "corpus", ["a/1", "a/2", "b/c/3", "b/c/4"])
    make_tree(tmp_path / "other", ["5", "d/6"])
    (tmp_path / "corpus" / "b" / "loop").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "b" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "corpus" / "b" / "broken").symlink_to(tmp_path / "nothing")
    for follow_links in (False, True):
        expected = at_once([tmp_path / "corpus"], follow_links=follow_links)
        done = in_pieces([tmp_path / "corpus"], 1, follow_links=follow_links)
        assert done[:2] == expected
        reasons = {one.item.reason for one in done[0]} - {""}
        outside = set() if follow_links else {"outside-link"}
        assert reasons == {"link-cycle", "broken-link"} | outside


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_that_cannot_be_listed_are_rejected_once(tmp_path):
    make_tree(tmp_path, ["a/1", "b/2", "c/3"])
    (tmp_path / "b").chmod(0)
    try:
        expected = at_once([tmp_path], on_unreadable="quarantine")
        assert in_pieces([tmp_path], 1, on_unreadable="quarantine")[:2] == expected
    finally:
        (tmp_path / "b").chmod(0o700)


@pytest.mark.parametrize("inside", ["", "deep/er"])
def test_of_a_shard_set_only_the_shards_are_a_corpus(inside, repository, tmp_path):
    shutil.copytree(repository / "tests/golden/v1/set", tmp_path / inside, dirs_exist_ok=True)
    files, ignored, pieces = in_pieces([tmp_path], most=1)
    assert (files, ignored) == at_once([tmp_path])
    assert len(pieces) > len(files) > 1
