"""`shardmill runs`: what it tells of runs of any state, and that no directory makes it fail."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.report.charts import epoch_chart
from cli.compared_runs import differences, read_runs
from foundation.errors import InputError
from trainer import EpochDone, TrainOptions

EPOCH = EpochDone(
    epoch=1, loss=2.0, accuracy=0.5, val_loss=2.5, val_accuracy=0.25, learning_rate=0.1,
    examples_per_second=100.0, loss_scale=None, input_wait=0.25, wall_seconds=60.0,
    cpu_seconds=90.0,
)  # fmt: skip


def write_run(directory, *losses, done=True, epochs=3, root_hash="a" * 64, **options):
    """Leaves what a run leaves whose validation had these losses."""
    directory.mkdir(parents=True)
    given = {**TrainOptions("set", directory, epochs=epochs).as_json(), **options}
    content = {
        "identity": {"precision": "float32", "root_hash": root_hash},
        "options": given,
        "versions": {"keras": "3.12", "numpy": "2.0"},
        "devices": ["CPU x86_64"],
    }
    history = [
        dataclasses.asdict(dataclasses.replace(EPOCH, epoch=n, val_loss=loss, loss=loss / 2))
        for n, loss in enumerate(losses, 1)
    ]
    if done:
        content["final"] = history[-1]
    (directory / "run.json").write_text(json.dumps(content))
    if history:
        (directory / "history.json").write_text(json.dumps(history))
    return directory


def change(path, changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_runs_are_read_in_every_state(tmp_path):
    write_run(tmp_path / "a", 3.0, 1.0, 2.0)
    write_run(tmp_path / "a" / "head", 9.0)
    write_run(tmp_path / "b" / "c", 3.0, done=False)
    at_work = write_run(tmp_path / "d", done=False)
    (tmp_path / "b" / "c" / "lock").touch()  # its process was killed
    (tmp_path / "photos").mkdir()
    with (at_work / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        runs = read_runs([tmp_path, tmp_path / "a"])
    assert [(run.name, run.state) for run in runs] == [
        ("a", "done"), ("b/c", "stopped"), ("d", "at work"),
    ]  # fmt: skip
    assert runs[0].cells == (
        "done", "3/3", "2", "1.0000", "25.0%", "3:00", "4:30", "100", "25.0%",
    )  # fmt: skip
    assert runs[1].cells[:4] == ("stopped", "1/3", "1", "3.0000")
    assert runs[2].cells == ("at work", "0/3", *"-------")
    assert [run.name for run in read_runs([tmp_path / "a" / "head"])] == ["head"]


def test_epochs_of_an_earlier_version_have_no_costs(tmp_path):
    run = write_run(tmp_path / "a", 2.0, 1.0)
    history = json.loads((run / "history.json").read_text())
    for name in ("wall_seconds", "cpu_seconds", "input_wait", "skipped"):
        del history[0][name]  # of the first epoch alone: the run was resumed since
    (run / "history.json").write_text(json.dumps(history))
    (shown,) = read_runs([tmp_path])
    assert shown.cells[5:] == ("-", "-", "100", "-")
    assert shown.measures["wall_seconds"] is None


def test_tokens_are_counted_where_there_are_some(tmp_path):
    run = write_run(tmp_path / "a", 2.0)
    change_epoch = {"tokens_per_second": 5000.0, "accuracy": None, "val_accuracy": None}
    epoch = {**json.loads((run / "history.json").read_text())[0], **change_epoch}
    (run / "history.json").write_text(json.dumps([{**epoch, "val_token_accuracy": 0.125}]))
    (shown,) = read_runs([tmp_path])
    assert shown.cells[4] == "12.5%" and shown.cells[7] == "5,000 tokens"


def test_only_what_differs_is_listed(tmp_path):
    write_run(tmp_path / "a", 1.0, learning_rate=0.001)
    run = write_run(tmp_path / "b", 1.0, learning_rate=0.01, root_hash="b" * 64)
    options = json.loads((run / "run.json").read_text())["options"]
    del options["accumulate"]  # an option of a later version
    change(run / "run.json", {"versions": {"keras": "3.13", "numpy": "2.0"}, "options": options})
    (write_run(tmp_path / "c", 1.0) / "run.json").write_text("{")
    assert differences(read_runs([tmp_path])) == {
        "learning-rate": ["0.001", "0.01", "-"],
        "version of keras": ["3.12", "3.13", "-"],
        "root hash": ["a" * 64, "b" * 64, "-"],
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.json", "{"),
        ("run.json", "[]"),
        ("run.json", '{"options": {"epochs": 3}, "identity": null, "versions": {}}'),
        ("run.json", "[" * 100_000),
        ("run.json", "\xff"),
        ("history.json", "{}1"),
        ("history.json", '[{"epoch": 1}]'),
        ("history.json", '[{"epoch": 1, "of a later version": 2}]'),
        ("history.json", '["<script>alert(1)</script>"]'),
        ("history.json", json.dumps([dataclasses.asdict(EPOCH) | {"loss": math.nan}])),
        ("history.json", json.dumps([dataclasses.asdict(EPOCH) | {"loss": "1"}])),
        ("history.json", json.dumps([dataclasses.asdict(EPOCH) | {"loss": 10**400}])),
        ("history.json", json.dumps([dataclasses.asdict(EPOCH) | {"epoch": 2}])),
    ],
)
def test_a_damaged_run_is_shown_as_such(tmp_path, shardmill, name, text):
    write_run(tmp_path / "runs" / "a", 1.0)
    write_run(tmp_path / "runs" / "b", 1.0)
    (tmp_path / "runs" / "b" / name).write_text(text, encoding="latin-1")
    done = shardmill("runs", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^b +damaged +- ", done.stdout, re.MULTILINE)
    assert f"damaged    {tmp_path / 'runs' / 'b'}: {name}: " in done.stdout
    assert "<script" not in (tmp_path / "runs" / "runs.html").read_text(encoding="utf-8")


def test_the_page_has_curves_and_runs_nothing(tmp_path, shardmill):
    for number in range(12):
        lines = (3.0, 2.0, 1.0 + number)[: 1 + number % 3]
        name = "<b>\u202erun" if number == 3 else f"{number}"
        write_run(tmp_path / "runs" / name, *lines, learning_rate=10.0**-number)
    done = shardmill("runs", tmp_path / "runs", "--out", tmp_path / "page.html", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["page"] == str(tmp_path / "page.html") and len(result["runs"]) == 12
    (one,) = [run for run in result["runs"] if run["run"] == "2"]
    assert one["best"]["epoch"] == 2 and one["wall_seconds"] == 180.0
    assert list(result["differences"]) == ["learning-rate"]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page and "default-src 'none'" in page and "\u202e" not in page
    assert page.count("&lt;b&gt;") == page.count("\\u202erun") > 0
    assert page.count("<figure") == 4 and page.count(' dash1"') >= 4 * 6
    assert not (tmp_path / "runs" / "runs.html").exists()


def test_the_table_fits_a_terminal(tmp_path, shardmill):
    for name in ("000", "001", "a-name-with-many-words"):
        write_run(tmp_path / name, 3.0, 2.0, learning_rate=len(name) / 10)
    done = shardmill("runs", tmp_path, env={"COLUMNS": "90"})
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("page")]
    assert max(map(len, lines)) <= 90
    row = "000 done 2/3 2 2.0000 25.0% 2:00 3:00 100 25.0%"
    assert row in [" ".join(line.split()) for line in lines]
    assert "000 learning-rate 0.3" in [" ".join(line.split()) for line in lines]


@pytest.mark.parametrize("place", ["nothing", "empty"])
def test_a_folder_without_a_run_is_an_error(tmp_path, place):
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    with pytest.raises(InputError, match="Pass the --run-dir of 'shardmill train'"):
        read_runs([tmp_path / place])


def test_a_page_that_cannot_be_written_is_an_error(tmp_path, shardmill):
    write_run(tmp_path / "a", 1.0)
    (tmp_path / "file").touch()
    done = shardmill("runs", tmp_path, "--out", tmp_path / "file" / "page.html")
    assert done.returncode == 3 and "Choose another file with --out." in done.stderr


_VALUES = st.none() | st.floats(0, 1e6) | st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(st.lists(_VALUES, max_size=6), min_size=1, max_size=4))
def test_every_value_is_drawn_within_the_chart(runs):
    chart = epoch_chart("loss", runs, [1] * len(runs), "{:.3g}".format)
    values = [value for run in runs for value in run if value is not None]
    assert (chart is None) == (not values)
    if chart is None:
        return
    for run, curve in zip(runs, chart.curves, strict=True):
        points = re.findall(r"(-?[\d.]+) (-?[\d.]+)", curve.path)
        assert len(points) == sum(value is not None for value in run)
        assert all(0 <= float(x) <= 360 and 0 <= float(y) <= 180 for x, y in points)
    assert all(-1e-6 <= at <= 100 + 1e-6 for _, at in [*chart.levels, *chart.ticks])
