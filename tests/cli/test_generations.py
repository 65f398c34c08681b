"""`preprocess --append`, `log` and `compact` as a person types them."""

from __future__ import annotations

import json
import os

import pytest


@pytest.fixture
def a_set(write_corpus, begin_set, tmp_path):
    """(a set of 8 records with seed 3, a folder with 3 others and a copy)."""
    old = write_corpus("old", {f"{'ab'[n % 2]}/old{n}": n for n in range(8)})
    new = write_corpus("new", {"a/new": 100, "b/more": 101, "c/last": 102, "b/copy": 1})
    begin_set(old, seed=3, resize="shorter:8")
    return tmp_path / "set", new


def test_append_log_and_compact(a_set, shardmill, tmp_path):
    root, new = a_set
    append = ("preprocess", "images", new, "--out", root, "--append")
    done = shardmill(*append, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["read"], summary["kept"], summary["duplicates"]) == (12, 11, 1)
    assert summary["generation"]["number"] == 1 and summary["generation"]["kept"] == 3
    again = shardmill(*append)
    assert "has these sources already: generation 1; nothing to do" in again.stdout

    checked = shardmill("verify", root)
    assert checked.returncode == 0, checked.stderr

    log = shardmill("log", root).stdout
    assert "generation 0" in log and "3 records" in log and str(new) in log
    both = json.loads(shardmill("log", root, "--json").stdout)["generations"]
    assert [one["ledger"]["kept"] for one in both] == [8, 3]

    (tmp_path / "ids.txt").write_text("a/new.jpg\nno/such.jpg\n")
    remove = ("compact", root, "--remove", tmp_path / "ids.txt")
    done = shardmill(*remove)
    assert done.returncode == 3 and "Nothing was removed" in done.stderr
    done = shardmill(*remove, "--missing-ok")
    assert done.returncode == 0, done.stderr
    assert "merged     2 generations" in done.stdout and "removed    1 record" in done.stdout
    assert "not found  1 id: 'no/such.jpg'" in done.stdout
    receipt = tmp_path / "receipt.json"
    again = shardmill(*remove, "--missing-ok", "--receipt", receipt)  # of the removal before
    assert again.returncode == 0 and "nothing to do" in again.stdout
    written = json.loads(receipt.read_text())
    assert (written["ids"], written["not_found"]) == (["a/new.jpg"], ["no/such.jpg"])
    assert (written["asked"], written["found"], written["removed"]["kept"]) == (2, 1, 1)
    assert written["root_hash_before"] != written["root_hash_after"] and written["files"]
    for path in root.rglob("*.*"):
        assert b"a/new.jpg" not in path.read_bytes(), path
    done = json.loads(shardmill("compact", root, "--json").stdout)
    assert not done["changed"] and (done["kept"], done["excluded"]) == (10, 1)
    inside = shardmill(*remove, "--receipt", root / "receipt.json")
    assert inside.returncode == 2 and "is in the set" in inside.stderr
    os.utime(new / "a" / "new.jpg", ns=(10**18, 10**18))
    looked = shardmill(*append, "--dry-run")
    assert "1 kept out" in " ".join(looked.stdout.split()), looked.stdout
    done = shardmill(*append)
    assert "kept out" in done.stdout and "1 record kept out" in done.stdout
    assert shardmill("verify", root).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--seed", "0"), 2, "--seed is 0 and 3 in the set"),  # also where it is the default
        (("--new-classes", "refuse"), 3, "1 class that"),
        (("--balance", "oversample"), 2, "--balance is oversample and none in the set"),
        (("--id-prefix", "../up"), 2, "Give one name"),
    ],
)
def test_mistakes(a_set, shardmill, arguments, code, message):
    root, new = a_set
    done = shardmill("preprocess", "images", new, "--out", root, "--append", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr and "Traceback" not in done.stderr


def test_there_is_nothing_to_append_to(write_corpus, shardmill, tmp_path):
    source = write_corpus("old", {"a/1": 1})
    done = shardmill("preprocess", "images", source, "--out", tmp_path / "none", "--append")
    assert done.returncode == 3 and "There is no directory" in done.stderr
    assert not (tmp_path / "none").exists()


def test_ids_that_cannot_be_read(a_set, shardmill, tmp_path):
    done = shardmill("compact", a_set[0], "--remove", tmp_path / "none.txt")
    assert done.returncode == 3 and "none.txt" in done.stderr
    (tmp_path / "empty.txt").write_text("\n")
    done = shardmill("compact", a_set[0], "--remove", tmp_path / "empty.txt")
    assert done.returncode == 3 and "has no record id" in done.stderr
    done = shardmill("compact", a_set[0], "--missing-ok")
    assert done.returncode == 2 and "--missing-ok is for the ids of --remove" in done.stderr
