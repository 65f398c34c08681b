"""--dry-run --append: what would be new, known, a duplicate or rejected; nothing is written."""

from __future__ import annotations

import pytest

from beam_jobs import ImageOptions, dry_run
from shard_format import InputError, UsageError
from tests.fixtures.damage import files_of

OLD = {f"{'ab'[n % 2]}/old{n}": n for n in range(12)}
NEW = {f"{'ab'[n % 2]}/new{n}": 100 + n for n in range(6)}


def look(source, tmp_path, **options):
    return dry_run(ImageOptions((str(source),), str(tmp_path / "set"), append=True, **options))


@pytest.mark.parametrize("dedup", ["exact", "near"])
def test_an_append_is_looked_at(dedup, write_corpus, begin_set, append_to, tmp_path):
    begin_set(write_corpus("old", OLD), dedup=dedup)
    new = write_corpus("new", {**NEW, "a/copy": 0, "b/copy": 1, "a/twice": 100})
    (new / "a" / "broken.jpg").write_bytes(b"no image")
    before = {
        name: (tmp_path / "set" / name).stat().st_mtime_ns for name in files_of(tmp_path / "set")
    }
    outlook = look(new, tmp_path)
    assert {name: (tmp_path / "set" / name).stat().st_mtime_ns for name in before} == before
    assert files_of(tmp_path / "set") == list(before)
    growth = outlook.growth._asdict()
    expected = {"generation": 1, "already_built": False, "known": 0, "new": 6}
    assert growth.items() >= (expected | {"duplicates": 2, "repeated": 1}).items()
    ledger = append_to(new).own.ledger
    assert (ledger.kept, ledger.duplicates, ledger.quarantined) == (6, 3, 1)


def test_what_is_known_is_said(write_corpus, begin_set, append_to, tmp_path):
    corpus = write_corpus("corpus", OLD)
    begin_set(corpus)
    outlook = look(corpus, tmp_path)
    assert (
        outlook.growth.already_built and outlook.growth.known == 12 and outlook.state == "complete"
    )
    write_corpus("corpus", NEW)
    outlook = look(corpus, tmp_path)
    assert (outlook.items, outlook.growth.known, outlook.growth.new) == (6, 12, 6)
    append_to(corpus)
    assert look(corpus, tmp_path).growth.generation == 1


def test_what_an_append_refuses_is_refused(write_corpus, begin_set, tmp_path):
    begin_set(write_corpus("old", OLD))
    with pytest.raises(UsageError, match="--seed is 4 and 0 in the set"):
        look(write_corpus("new", NEW), tmp_path, seed=4)
    with pytest.raises(InputError, match="have the id of another one"):
        look(write_corpus("other", {"a/old0": 700}), tmp_path)


def test_the_command_prints_it(write_corpus, begin_set, shardmill, tmp_path):
    begin_set(write_corpus("old", OLD))
    new = write_corpus("new", {**NEW, "a/copy": 0})
    done = shardmill(
        "preprocess", "images", new, "--out", tmp_path / "set", "--append", "--dry-run"
    )
    assert done.returncode == 0, done.stderr
    assert "generation 1 of" in done.stdout
    assert "of the sample 6 new, 1 duplicate" in " ".join(done.stdout.split())
