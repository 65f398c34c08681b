"""The scorecard: who leads, what is kept of a row that is interrupted, and every adapter, small."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import simplejpeg

from beam_jobs.images.encode import encode_jpeg
from beam_jobs.images.resize import parse_resize, resize_image
from benchmarks.measure import Run
from benchmarks.peers import environments
from benchmarks.scorecard import page, taking_turns
from benchmarks.scorecard.row import Bench, Column, Row, Subject, rate_columns
from benchmarks.scorecard.rows import ROWS
from benchmarks.subjects import photo_kernels


class Runs:
    """A subject whose runs have given rates, one after the other."""

    def __init__(self, *rates, fails=""):
        self.rates, self.calls, self.fails = rates, 0, fails

    def __call__(self):
        if self.fails:
            raise SystemExit(f"peer failed:\n{self.fails}")
        rate = self.rates[self.calls % len(self.rates)]
        self.calls += 1
        return Run(int(rate * 2), 2.0, 4.0, 100.0, 90.0, {"place": "named"}, "python -m peer")


def _row(subjects, columns=None):
    return Row("speed", "some work", "All do it.", columns or rate_columns("records"), subjects)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setattr(taking_turns, "commit", lambda: "one")
    return Bench(tmp_path, tmp_path / "peers", is_small=True)


def test_ratios_are_computed_within_a_turn_and_the_median_counts(bench):
    # The machine is slower in every turn: ratios of medians would say 0.83.
    ours, peer = Runs(100, 60, 30), Runs(50, 40, 21)
    row = _row(lambda _: [Subject("shardmill", "shardmill", ours), Subject("peer", "Peer", peer)])
    result = taking_turns.measure_row(row, bench, 3)
    figure = result["subjects"]["peer"]["figures"]["records/s"]
    assert figure == {"median": 40, "low": 21, "high": 50, "ratio": 0.6667}
    assert result["turns"] == 3
    standing = page.standing(row, result)
    assert standing.leads and round(standing.ratio, 2) == 1.5 and standing.best == "peer"
    assert "| **shardmill** | 60 (30 to 100) | 1.00 |" in page.table(row, result, is_markdown=True)


def test_the_best_configurations_are_compared_and_baselines_are_no_peers(bench):
    rates = {("a", "shardmill"): 10, ("b", "shardmill"): 20, ("p", "P"): 30, ("limit", ""): 90}
    subjects = [Subject(name, whose, Runs(rate)) for (name, whose), rate in rates.items()]
    row = _row(lambda _: subjects)
    standing = page.standing(row, taking_turns.measure_row(row, bench, 1))
    assert (standing.ours, standing.best) == ("b", "p")
    assert not standing.leads and round(standing.ratio, 3) == 0.667


def test_two_configurations_are_compared_turn_by_turn(bench):
    runs = {"first": Runs(1), "best": Runs(90, 60, 30), "peer": Runs(30, 60, 50)}
    subjects = [Subject(n, "P" if n == "peer" else "shardmill", run) for n, run in runs.items()]
    row = _row(lambda _: subjects)
    standing = page.standing(row, taking_turns.measure_row(row, bench, 3))
    assert standing.ours == "best" and standing.ratio == 1  # of 3, 1 and 0.6; medians say 1.2


def test_less_can_be_better(bench):
    columns = (Column("CPU ms each", lambda run: 1000 / run.cpu_rate, "less", 2),)
    subjects = [Subject("shardmill", "shardmill", Runs(50)), Subject("p", "P", Runs(25))]
    row = _row(lambda _: subjects, columns)
    standing = page.standing(row, taking_turns.measure_row(row, bench, 1))
    assert standing.leads and standing.ratio == 2


def test_a_row_that_was_interrupted_goes_on_where_it_was(bench):
    ours, peer = Runs(100), Runs(50)
    row = _row(lambda _: [Subject("shardmill", "shardmill", ours), Subject("peer", "Peer", peer)])
    taking_turns.measure_row(row, bench, 2)
    taking_turns.measure_row(row, bench, 3)
    assert (ours.calls, peer.calls) == (3, 3)


def test_who_leads_where_a_figure_is_zero(bench):
    columns = (Column("wrong", lambda run: run.records, "less"),)
    for ours, peer, leads in ((0, 0, True), (0, 1, True), (1, 0, False)):
        subjects = [Subject("shardmill", "shardmill", Runs(ours)), Subject("p", "P", Runs(peer))]
        row = _row(lambda _, subjects=subjects: subjects, columns)
        work = Bench(bench.work / f"{ours}{peer}", bench.peers)
        standing = page.standing(row, taking_turns.measure_row(row, work, 1))
        assert (standing.leads, standing.ratio) == (leads, None)


def test_runs_of_changed_files_are_not_taken(bench, monkeypatch):
    ours = Runs(100)
    row = _row(lambda _: [Subject("shardmill", "shardmill", ours)])
    monkeypatch.setattr(taking_turns, "commit", lambda: "one, changed")
    taking_turns.measure_row(row, bench, 1)
    taking_turns.measure_row(row, bench, 1)
    assert ours.calls == 2


def test_runs_of_another_commit_are_not_taken(bench, monkeypatch):
    ours = Runs(100)
    row = _row(lambda _: [Subject("shardmill", "shardmill", ours)])
    taking_turns.measure_row(row, bench, 1)
    monkeypatch.setattr(taking_turns, "commit", lambda: "another")
    taking_turns.measure_row(row, bench, 1)
    assert ours.calls == 2


def test_a_peer_that_fails_is_named_and_the_others_are_measured(bench, capsys):
    subjects = [
        Subject("shardmill", "shardmill", Runs(100)),
        Subject("peer", "Peer", Runs(fails="no such thing")),
        Subject("absent", "Absent", Runs(1), "nowhere"),
    ]
    row = _row(lambda _: subjects)
    result = taking_turns.measure_row(row, bench, 2)
    assert result["failed"] == {"peer": "peer failed:\nno such thing"}
    assert list(result["subjects"]) == ["shardmill"]
    assert "failed: no such thing" in page.table(row, result)
    assert "without absent, which 'make peers' installs" in capsys.readouterr().out


def test_results_name_no_folder_of_this_machine(bench):
    command = f"python -m peer {bench.work}/set"
    subjects = [
        Subject("shardmill", "shardmill", lambda: Run(1, 1.0, 1.0, 1.0, 1.0, {}, command)),
        Subject("peer", "Peer", Runs(fails=str(bench.peers))),
    ]
    result = taking_turns.measure_row(_row(lambda _: subjects), bench, 1)
    assert result["subjects"]["shardmill"]["runs"][0]["command"] == "python -m peer WORK/set"
    assert str(bench.work) not in json.dumps(result)


def test_figures_may_be_words(bench):
    columns = (*rate_columns("records"), Column("damage", lambda run: run.details["place"]))
    row = _row(lambda _: [Subject("shardmill", "shardmill", Runs(100))], columns)
    assert "named" in page.table(row, taking_turns.measure_row(row, bench, 2))


def test_results_are_json_and_name_their_commands(bench):
    row = _row(lambda _: [Subject("shardmill", "shardmill", Runs(100))])
    result = json.loads(json.dumps(taking_turns.measure_row(row, bench, 1)))
    run = result["subjects"]["shardmill"]["runs"][0]
    assert run["command"] == "python -m peer"
    assert Run(**run) == dataclasses.replace(Runs(100)(), command="python -m peer")
    assert {"commit", "date", "machine", "versions", "command"} <= set(result)


def test_peers_have_the_kernels_of_shardmill(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (534, 400, 3), np.uint8)
    file = tmp_path / "photo.jpg"
    file.write_bytes(photo_kernels.encoded(pixels))
    decoded = simplejpeg.decode_jpeg(file.read_bytes())
    resize = parse_resize(f"shorter:{photo_kernels.SIDE}", resize_filter="sharp")
    expected = resize_image(decoded, resize, max_pixels=1 << 30)
    assert np.array_equal(photo_kernels.resized(file), expected)
    assert photo_kernels.encoded(expected) == encode_jpeg(expected, photo_kernels.QUALITY)


def test_pages_are_those_of_the_results(repository):
    results = json.loads(page.RESULTS.read_text())
    assert list(results) == list(ROWS)
    assert page.PAGE.read_text(encoding="utf-8") == page.page(results)
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert "](docs/scorecard.md#photographs)" in readme
    assert readme == page.in_readme(readme, results)
    charts = {path.stem: path for path in (repository / "docs" / "scorecard").glob("*.svg")}
    assert set(charts) == {name for name in results if page.has_chart(ROWS[name])}
    for name, path in charts.items():
        assert path.read_text(encoding="utf-8") == page.chart(ROWS[name], results[name])


def test_every_run_of_the_results_names_its_command():
    results = json.loads(page.RESULTS.read_text())
    for name, result in results.items():
        assert f"--only {name}" in result["command"] or "--only" not in result["command"]
        for subject in result["subjects"].values():
            commands = [run["command"] for run in subject["runs"]]
            assert all("benchmarks." in command for command in commands)
            assert len(commands) >= min(5, ROWS[name].turns)


@pytest.mark.proof
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ROWS)
def test_every_adapter_that_needs_no_peer_does_its_work(name, tmp_path_factory):
    work = tmp_path_factory.getbasetemp() / "scorecard"  # forms of a set are made once
    result = taking_turns.measure_row(ROWS[name], Bench(work, work / "no peers", True), 1)
    assert not result["failed"]
    for subject in result["subjects"].values():
        assert all(run["records"] > 0 for run in subject["runs"])


@pytest.mark.interop
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ROWS)
def test_every_adapter_of_a_peer_does_its_work(name, repository, tmp_path_factory):
    peers = repository / ".peers"
    assert all((peers / name / "bin" / "python").exists() for name in environments())
    work = tmp_path_factory.getbasetemp() / "scorecard of peers"
    result = taking_turns.measure_row(ROWS[name], Bench(work, peers, True), 1)
    assert not result["failed"]
    assert all(one["runs"][0]["records"] > 0 for one in result["subjects"].values())
