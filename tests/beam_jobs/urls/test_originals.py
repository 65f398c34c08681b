"""What was fetched is kept, and nothing is asked twice; a replay asks what may come back."""

from __future__ import annotations

import json
import random

import pytest

from beam_jobs import bounds
from beam_jobs.corpus.urls import originals
from beam_jobs.quarantine import export
from shard_format import load_manifest, verify
from tests.beam_jobs.urls.test_outcomes import build, farm_urls, refused, write_list
from tests.fixtures.killed_commands import KILLED
from tests.fixtures.url_farm import LIMIT, Farm, picture

FLAGS = [*("--url-column", "url", "--allow-private", "--max-record-bytes", str(LIMIT), "--json")]
FLAGS += [*("--resize", "none", "--no-report", "--fetch-retries", "0", "--workers", "1")]


def kinds_asked(farm):
    return {path.partition("/")[0] for path in farm.asked}


@pytest.fixture
def small_groups(monkeypatch):
    """Groups of a few rows."""
    monkeypatch.setattr(originals, "_MEAN_ROWS", 5)


def test_other_options_fetch_nothing(farm, tmp_path, small_groups):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm))
    kept = str(tmp_path / "kept")
    first = build(source, tmp_path / "one", keep_originals=kept, fetch_retries=1)
    farm.asked.clear()
    second = build(source, tmp_path / "two", keep_originals=kept, fetch_retries=1)
    assert second.manifest.root_hash == first.manifest.root_hash
    third = build(source, tmp_path / "three", keep_originals=kept, resize="crop:8x8")
    assert third.manifest.ledger.kept == first.manifest.ledger.kept
    assert not farm.asked


def test_originals_in_an_object_store(farm, tmp_path, memory, small_groups):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm))
    first = build(source, tmp_path / "one", keep_originals="memory://bucket/kept")
    farm.asked.clear()
    second = build(source, tmp_path / "two", keep_originals="memory://bucket/kept", workers=3)
    assert second.manifest.root_hash == first.manifest.root_hash
    assert not farm.asked


def test_workers_that_are_processes_fetch_too(farm, tmp_path):
    urls = [farm.url(f"ok/{number}") for number in range(120)]
    source = write_list(tmp_path / "urls.csv", urls)
    first = build(source, tmp_path / "one")
    options = {"worker_type": "processes", "workers": 2, "unit_size": "1KiB"}
    second = build(source, tmp_path / "two", **options)
    assert second.manifest.root_hash == first.manifest.root_hash


def test_rules_that_were_loosened_ask_again(farm, tmp_path, small_groups):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm))
    kept = str(tmp_path / "kept")
    build(source, tmp_path / "one", keep_originals=kept)
    farm.asked.clear()
    report = build(source, tmp_path / "two", keep_originals=kept, ignore_opt_outs=True)
    assert kinds_asked(farm) == {"forbidden", "ours", "large", "endless", "bomb", "loop"}
    assert "opted-out" not in refused(report)


def test_a_longer_list_asks_for_what_is_new(farm, tmp_path, small_groups):
    urls = [farm.url(f"ok/{number}") for number in range(60)]
    kept = str(tmp_path / "kept")
    build(write_list(tmp_path / "urls.csv", urls[:40]), tmp_path / "one", keep_originals=kept)
    farm.asked.clear()
    report = build(write_list(tmp_path / "urls.csv", urls), tmp_path / "two", keep_originals=kept)
    assert report.manifest.ledger.kept == 60
    # The last group is another one now; where groups end depends on the port.
    ends = [number + 1 for number, url in enumerate(urls[:40]) if originals.ends_group(url)]
    assert set(farm.asked) == {f"ok/{number}" for number in range(max(ends, default=0), 60)}


@pytest.mark.parametrize("harm", ["flip", "cut", "no body", "no marker", "no JSON"])
def test_damage_is_asked_for_again(harm, farm, tmp_path, small_groups):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm))
    kept = tmp_path / "kept"
    first = build(source, tmp_path / "one", keep_originals=str(kept), fetch_retries=1)
    bodies = max(kept.rglob("*.tfrecord"), key=lambda path: path.stat().st_size)
    data = bytearray(bodies.read_bytes())
    match harm:
        case "flip":
            data[len(data) // 2] ^= 1
            bodies.write_bytes(data)
        case "cut":
            bodies.write_bytes(data[: len(data) // 2])
        case "no body":
            bodies.unlink()
        case "no marker":
            bodies.with_suffix(".json").unlink()
        case _:
            bodies.with_suffix(".json").write_text('{"version": 1, "outcomes": 7}')
    farm.asked.clear()
    second = build(source, tmp_path / "two", keep_originals=str(kept), fetch_retries=1)
    assert second.manifest.root_hash == first.manifest.root_hash
    assert farm.asked


@pytest.mark.parametrize("staged", [False, True])
def test_a_replay_asks_what_may_come_back(staged, farm, tmp_path, shardmill, small_groups):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm))
    out, kept = str(tmp_path / "set"), str(tmp_path / "kept")
    staging = ["--staging", str(tmp_path / "staging")] if staged else []
    command = ["preprocess", "images", source, *FLAGS, "--keep-originals", kept, *staging]
    assert shardmill(*command, "--out", out).returncode == 0
    farm.asked.clear()
    done = shardmill("quarantine", "replay", out, "--json")
    assert done.returncode == 0, done.stderr
    # Without repetitions in a build, these two were rejected the first time.
    assert kinds_asked(farm) == {*Farm.TEMPORARY, "busy", "recovers"}
    farm.asked.clear()
    farm.healed = True
    done = shardmill("quarantine", "replay", out, "--json")
    assert kinds_asked(farm) == set(Farm.TEMPORARY)
    replayed = load_manifest(tmp_path / "set")
    assert json.loads(done.stdout)["root_hash"] == replayed.root_hash
    verify(tmp_path / "set")
    fresh = shardmill(*command[:-4] if staged else command[:-2], "--out", str(tmp_path / "fresh"))
    assert json.loads(fresh.stdout)["root_hash"] == replayed.root_hash
    farm.asked.clear()
    assert shardmill("quarantine", "replay", out).returncode == 0
    assert not farm.asked


def test_a_replay_is_named_where_it_may_help(farm, tmp_path, shardmill):
    source = write_list(tmp_path / "urls.csv", [farm.url("ok/1"), farm.url("down/1")])
    out = tmp_path / "set"
    flags = [flag for flag in FLAGS if flag != "--json"]
    command = ["preprocess", "images", source, *flags, "--out", out]
    done = shardmill(*command, "--keep-originals", tmp_path / "kept")
    assert f"1 URL may answer at another time: shardmill quarantine replay {out}" in (
        " ".join((done.stdout + done.stderr).split())
    )
    farm.healed = True
    done = shardmill("quarantine", "replay", out)
    assert done.returncode == 0
    assert "another time" not in done.stdout + done.stderr


def test_a_replay_without_originals_is_refused(farm, tmp_path, shardmill):
    source = write_list(tmp_path / "urls.csv", [farm.url("ok/1"), farm.url("down/1")])
    out = str(tmp_path / "set")
    assert shardmill("preprocess", "images", source, *FLAGS, "--out", out).returncode == 0
    done = shardmill("quarantine", "replay", out)
    assert done.returncode == 2
    assert "--keep-originals" in done.stderr
    farm.asked.clear()
    done = shardmill("quarantine", "replay", out, "--keep-originals", str(tmp_path / "kept"))
    assert done.returncode == 0
    assert set(farm.asked) == {"ok/1", "down/1"}


def test_a_repaired_file_takes_the_place_of_what_a_url_gave(farm, tmp_path, shardmill):
    urls = [farm.url(path) for path in ("ok/1", "html/1", "gone/1")]
    source = write_list(tmp_path / "urls.csv", urls)
    out, kept = tmp_path / "set", str(tmp_path / "kept")
    build(source, out, keep_originals=kept)
    done = export(out, tmp_path / "refused")
    assert (done.written, done.without_bytes) == (1, 1)
    (file,) = (path for path in (tmp_path / "refused" / "files").rglob("*") if path.is_file())
    assert file.read_bytes().startswith(b"<!doctype html>")
    file.write_bytes(picture("repaired"))
    farm.asked.clear()
    done = shardmill("quarantine", "replay", out, tmp_path / "refused", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kept"] == 2
    assert not farm.asked


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 9))]
)
def test_the_order_of_answers_changes_nothing(seed, farm, tmp_path, monkeypatch, small_groups):
    # Of an answer that is longer than it says, the packets decide whether the rest is seen.
    urls = [url for url in farm_urls(farm, 3) if "/short/" not in url]
    source = write_list(tmp_path / "urls.csv", urls)
    expected = build(source, tmp_path / "one", fetch_retries=1).manifest.root_hash
    delays = random.Random(seed)
    farm.delay = lambda path: delays.random() / 20
    monkeypatch.setattr(bounds, "FETCHED_AHEAD", 3)
    monkeypatch.setattr(bounds, "FETCHED_BYTES", 1000)
    report = build(source, tmp_path / "two", fetch_retries=1, connections=4, connections_per_host=2)
    assert report.manifest.root_hash == expected


def kills_at(total: int, number: int) -> list[int]:
    return sorted({total * (one + 1) // (number + 1) for one in range(number)})


@pytest.mark.parametrize("number", [2, pytest.param(12, marks=pytest.mark.proof)])
def test_a_killed_build_goes_on(number, farm, tmp_path, commands):
    urls = [farm.url(f"ok/{one}") for one in range(200)] + [
        farm.url(f"gone/{one}") for one in range(9)
    ]
    source = write_list(tmp_path / "urls.csv", urls)
    command = ["preprocess", "images", source, *FLAGS, "--unit-size", "1KiB"]
    whole = commands.run(*command, "--out", str(tmp_path / "whole"))
    assert whole.code == 0, whole.output
    expected = load_manifest(tmp_path / "whole").root_hash
    for at in kills_at(whole.operations, number):
        out = tmp_path / f"set-{at}"
        farm.asked.clear()
        assert commands.run(*command, "--out", str(out), kill_at=at).code == KILLED
        staged = len(list((out / ".shardmill" / "units").glob("*.json")))
        before = farm.asked.total()
        again = commands.run(*command, "--out", str(out))
        assert again.code == 0, again.output
        assert load_manifest(out).root_hash == expected
        if staged:
            assert farm.asked.total() - before < len(urls)


@pytest.mark.parametrize("number", [2, pytest.param(12, marks=pytest.mark.proof)])
def test_originals_are_whole_after_a_kill(number, farm, tmp_path, commands):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm, 4))
    command = ["preprocess", "images", source, *FLAGS]

    def arguments(name):
        return [
            *command,
            "--out",
            str(tmp_path / name),
            "--keep-originals",
            str(tmp_path / f"{name}-kept"),
        ]

    whole = commands.run(*arguments("whole"))
    assert whole.code == 0, whole.output
    for at in kills_at(whole.operations, number):
        farm.asked.clear()
        assert commands.run(*arguments(f"{at}"), kill_at=at).code == KILLED
        farm.asked.clear()
        again = commands.run(*arguments(f"{at}"))
        assert again.code == 0, again.output
        farm.asked.clear()
        third = build(
            source,
            tmp_path / f"{at}-third",
            keep_originals=str(tmp_path / f"{at}-kept"),
            fetch_retries=0,
        )
        assert not farm.asked
        assert third.manifest.root_hash == load_manifest(tmp_path / f"{at}").root_hash


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [1, pytest.param(5, marks=pytest.mark.proof)])
def test_a_killed_replay_goes_on(number, farm, tmp_path, commands):
    source = write_list(tmp_path / "urls.csv", farm_urls(farm, 4))

    def built(name):
        farm.healed = False
        out, kept = str(tmp_path / name), str(tmp_path / f"{name}-kept")
        command = ["preprocess", "images", source, *FLAGS, "--out", out, "--keep-originals", kept]
        done = commands.run(*command)
        assert done.code == 0, done.output
        farm.healed = True
        return out

    out = built("whole")
    whole = commands.run("quarantine", "replay", out)
    assert whole.code == 0, whole.output
    expected = load_manifest(tmp_path / "whole").root_hash
    for at in kills_at(whole.operations, number):
        out = built(f"{at}")
        assert commands.run("quarantine", "replay", out, kill_at=at).code == KILLED
        done = commands.run("quarantine", "replay", out)
        assert done.code == 0, done.output
        assert load_manifest(tmp_path / f"{at}").root_hash == expected
