import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shard_format import Feature, Schema

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The tests say what happens on a CPU, also on a machine that has a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

PROGRAMS = Path(__file__).parent / "programs"
sys.path.insert(0, str(PROGRAMS))  # for `import tiny`, and for --model tiny:dense


@pytest.fixture
def run_program():
    """Runs a program next to tiny.py in a new process; what it needs is one, or 2 CPU devices."""

    def run(name, *arguments):
        root = Path(__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        return subprocess.run(
            [sys.executable, str(PROGRAMS / name), *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )

    return run


@pytest.fixture
def run_reports(run_program, tmp_path):
    """Trains with each of several options, in one process of a program; reports and weights."""

    def run(program, options, *arguments):
        done = run_program(program, *arguments, tmp_path, *map(json.dumps, options))
        assert done.returncode == 0, done.stderr[-3000:]
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        for number, report in enumerate(reports):
            if isinstance(report, dict):
                directory = options[number].get("run_dir", tmp_path / str(number))
                report["weights"] = list(np.load(f"{directory}/weights.npz").values())
        return reports

    return run


@pytest.fixture
def options(tmp_path):
    """Options of a run that takes a second or two; keyword arguments change them."""
    from trainer import TrainOptions

    def make(**changes):
        return TrainOptions(
            **{
                "data": tmp_path / "data",
                "run_dir": tmp_path / "run",
                "model": "tiny:dense",
                "image_size": 8,
                "batch_size": 8,
                "epochs": 2,
                "precision": "float32",
                **changes,
            }
        )

    return make


@pytest.fixture
def write_set(write_records):
    """Writes a set of tiny's images in tmp_path / "data", of so many records a split."""
    import tensorflow as tf
    import tiny

    def record(image, label, label_shape):
        values = {"image": tf.io.encode_jpeg(image, quality=95).numpy()}
        if label_shape is not None:
            values["label"] = [int(label)] if label_shape else int(label)
        return values, {"width": 12, "height": 12}

    def write(class_names=tiny.NAMES, label_shape=(), statistics=None, **counts):
        features = (
            Feature("image", "image", (12, 12, 3), "jpeg"),
            Feature("label", "class_label", label_shape or (), "", class_names, late=True),
        )
        if label_shape is None:
            features = features[:1]
        splits = {
            name: [record(*pair, label_shape) for pair in zip(*drawn, strict=True)]
            for name, drawn in (
                (name, tiny.make_images(count, 12, seed))
                for seed, (name, count) in enumerate(counts.items())
            )
        }
        columns = (pa.field("width", pa.int32()), pa.field("height", pa.int32()))
        return write_records(Schema("image", features), splits, columns, statistics, "data")

    return write


@pytest.fixture(autouse=True)
def figures(request, monkeypatch):
    """Runs draw no figures, which takes longer than they do, but in tests with this mark."""
    if request.node.get_closest_marker("figures") is None:
        monkeypatch.setattr("trainer.monitoring.records.Records._draw", lambda *arguments: None)


@pytest.fixture(autouse=True, scope="session")
def graphs(unoptimized_graphs: None) -> None:
    """Every test here has them."""
