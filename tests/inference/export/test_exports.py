"""Exported models: they predict what the reader and Keras give, without shardmill."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from inference.export import ExportOptions, export
from inference.export.predicting import Predictor, open_predictor
from inference.export.trained_run import in_float32, open_run
from shard_format import InputError, UsageError

ROUNDING = 1e-5  # of sums in float32, which differ by the size of a batch
PIXELS = 2e-4  # of probabilities where pixels in uint8 differ by 1


@pytest.fixture(scope="module")
def expected(trained):
    """Record id -> probabilities, through reader.load and Keras.

    From pixels that were resized in float32 and rounded, as a graph resizes them, and from those
    of uint8, which OpenCV resizes in whole numbers.
    """
    import reader

    model, rows_of = in_float32(open_run(trained.run).model), {"float32": {}, "uint8": {}}
    for dtype, split in itertools.product(rows_of, ("train", "test")):
        stream = reader.load(
            trained.data, split=split, batch_size=32, image_size=32, features=("id",),
            shuffle="off", epochs=1, remainder="keep", cache="off", dtype=dtype,
        )  # fmt: skip
        for inputs, _ in stream.dataset.as_numpy_iterator():
            images = np.floor(inputs["image"].astype(np.float32) + 0.5)
            rows = model(images, training=False).numpy()
            ids = [name.decode() for name in inputs["id"]]
            rows_of[dtype] |= dict(zip(ids, rows, strict=True))
    return rows_of


@pytest.fixture(scope="module")
def records(trained):
    """Record id -> the bytes in the shards."""
    specs = {name: tf.io.FixedLenFeature([], tf.string) for name in ("id", "image")}
    shards = [str(path) for path in sorted(trained.data.glob("*.tfrecord-*"))]
    images = {}
    for example in tf.data.TFRecordDataset(shards):
        record = tf.io.parse_single_example(example, specs)
        images[record["id"].numpy().decode()] = record["image"].numpy()
    return images


def predicted(folder, signature, files):
    loaded = tf.saved_model.load(str(folder))
    parts = [files[start : start + 50] for start in range(0, len(files), 50)]
    call = loaded.signatures[signature]
    return np.concatenate([call(image_bytes=tf.constant(p))["probabilities"] for p in parts])


def test_predictions_are_those_through_the_reader(trained, expected, records, samples):
    """Of every sample, as a record has it and as the photograph that preprocessing read."""
    names = sorted(expected["float32"])
    assert len(names) == 320
    rows = np.array([expected["float32"][name] for name in names])
    assert np.ptp(rows, axis=0).max() > 100 * ROUNDING  # they differ by image
    stored = predicted(trained.served / "1", "stored", [records[name] for name in names])
    np.testing.assert_allclose(stored, rows, atol=ROUNDING)
    photographs = [(samples / name).read_bytes() for name in names]
    served = predicted(trained.served / "1", "serving_default", photographs)
    np.testing.assert_allclose(served, rows, atol=ROUNDING)
    whole = np.array([expected["uint8"][name] for name in names])
    np.testing.assert_allclose(served, whole, atol=PIXELS)


PLAIN = """
import runpy, sys
OWN = ("cli", "inference", "trainer", "reader", "beam_jobs", "shard_format", "foundation")
for name in (*OWN, "keras"):
    sys.modules[name] = None  # importing it fails
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def server(trained, repository, tmp_path):
    program = repository / "samples" / "serving" / "server.py"
    arguments = [program, trained.served, "--name", "clothing", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", PLAIN, *map(str, arguments)],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        line = process.stdout.readline()
        yield line.split()[-1] + "/v1/models/clothing"
        process.terminate()


def ask(url, content=None):
    body = None if content is None else json.dumps(content).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
        return json.loads(answer.read())


def served_version(url):
    return ask(url)["model_version_status"][0]["version"]


@pytest.mark.proof
def test_a_process_without_shardmill_serves_it(server, trained, expected, samples):
    """Over HTTP, in the protocol of TensorFlow Serving; a new version is taken up."""
    names = sorted(expected["float32"])[:3]
    encoded = [base64.b64encode((samples / name).read_bytes()).decode() for name in names]
    status = ask(server)["model_version_status"]
    assert status[0]["state"] == "AVAILABLE"
    before = int(status[0]["version"])
    answer = ask(server + ":predict", {"instances": [{"b64": each} for each in encoded]})
    rows = answer["predictions"]
    for name, row in zip(names, rows, strict=True):
        np.testing.assert_allclose(row["probabilities"], expected["float32"][name], atol=ROUNDING)
        assert row["class"] == row["classes"][int(np.argmax(row["probabilities"]))]
    columns = ask(server + ":predict", {"inputs": {"image_bytes": [{"b64": encoded[0]}]}})
    assert columns["outputs"]["class"] == [rows[0]["class"]]
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(server + ":predict", {"instances": [{"b64": "AAAA"}]})
    assert refused.value.code == 400 and "error" in json.loads(refused.value.read())

    done = export(ExportOptions(trained.run, trained.served))
    assert done.path.name == str(before + 1)
    assert all(path.name.isdecimal() for path in trained.served.iterdir())
    end = time.monotonic() + 60
    while served_version(server) != done.path.name:
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_command_predicts_with_a_run_and_with_an_export(trained, shardmill, samples, tmp_path):
    photograph = sorted((samples / "hat").iterdir())[0]
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    answers = []
    for model in (trained.run, trained.served):
        done = shardmill("predict", model, photograph, tmp_path / "broken.jpg", "--json")
        assert done.returncode == 3
        good, bad = json.loads(done.stdout.splitlines()[-1])["predictions"]
        assert bad["error"].startswith("not an image") and not bad["classes"]
        answers.append(good["classes"])
    (name, share), (again, same) = (next(iter(each.items())) for each in answers)
    assert name == again and share == pytest.approx(same, abs=ROUNDING)
    text = shardmill("predict", trained.served, photograph, "--top", "2").stdout
    assert f"{photograph}  {name} {share:.1%}" in text


def test_the_command_says_which_file_cannot_be_decoded_and_why(trained, shardmill, tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "opaque.webp")
    image.save(tmp_path / "animated.webp", save_all=True, append_images=[image.rotate(90)])
    whole = (tmp_path / "opaque.webp").read_bytes()
    bomb = file_of_png(20000, 20000)
    contents = {
        "bomb.png": (bomb, "declares 20000 x 20000 pixels, more than --max-pixels 89478485"),
        "cut.png": (bomb[:70], "declares 20000 x 20000 pixels"),
        "cut.webp": (whole[: len(whole) // 2], "Failed to decode WebP image."),
        "empty.jpg": (b"", "the file has no bytes"),
        "page.jpg": (b"<html>", "the content is none of JPEG, PNG, WebP, GIF and BMP"),
    }
    for name, (content, _) in contents.items():
        (tmp_path / name).write_bytes(content)
    for model in (trained.run, trained.served):
        done = shardmill("predict", model, tmp_path)
        assert done.returncode == 3
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")]
        for line, (name, (_, reason)) in zip(lines, contents.items(), strict=True):
            assert line.startswith(f"error: {tmp_path / name}: not an image that can be decoded: ")
            assert reason in line
        assert [line.split()[0] for line in done.stdout.splitlines()[-2:]] == [
            str(tmp_path / "animated.webp"), str(tmp_path / "opaque.webp"),
        ]  # fmt: skip


PLACES = "Graph execution error:\n\nDetected at node map/Assert defined at:\n<stack traces>\n"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (PLACES + "{{node a}} it is cut\n\t [[{{node a}}]] [Op:serve]", "it is cut"),
        (
            "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  assertion failed: [it is cut]\n\t [[",
            "it is cut",
        ),
        ("Graph execution error:\n\n", "TensorFlow does not say why (InvalidArgumentError)"),
        (PLACES + "[[{{node a}}]]", "TensorFlow does not say why (InvalidArgumentError)"),
    ],
)
def test_a_reason_is_more_than_the_place(message, reason):
    def fail(batch):
        raise tf.errors.InvalidArgumentError(None, None, message)

    (prediction,) = Predictor("image", False, ("a", "b"), fail).predict([("a.jpg", b"")])
    assert prediction.error == f"not an image that can be decoded: {reason}"


@pytest.fixture
def run_early(tmp_path):
    """Runs a command that must end before TensorFlow is loaded."""
    program = (
        "import sys\nfrom cli.main import main\ntry:\n    main()\n"
        "finally:\n    assert not {'tensorflow', 'keras'} & sys.modules.keys()"
    )

    def run(*arguments, **variables):
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        )  # fmt: skip

    return run


@pytest.mark.parametrize("arguments", [("predict", "nosuch", "a.jpg"), ("export", "nosuch")])
def test_a_missing_model_is_said_before_tensorflow_is_loaded(arguments, run_early):
    done = run_early(*arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: No directory nosuch. Pass the --run-dir of 'shardmill")


def test_an_unfinished_run_is_said_before_tensorflow_is_loaded(trained, run_early, tmp_path):
    (tmp_path / "run").mkdir()
    shutil.copy(trained.run / "run.json", tmp_path / "run")
    done = run_early("export", "run")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: No model.keras in run: the run is unfinished. Finish it")


@pytest.mark.parametrize("command", ["predict", "export", "train"])
def test_another_backend_of_keras_is_one_line(command, run_early, trained):
    arguments = {
        "predict": (trained.run, "a.jpg"), "export": (trained.run,), "train": (trained.data,)
    }  # fmt: skip
    done = run_early(command, *arguments[command], KERAS_BACKEND="jax")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: Keras runs on KERAS_BACKEND=jax, not on TensorFlow. Unset KERAS_BACKEND.\n"
    )


def file_of_png(width, height):
    """A gray image of one color, in some hundred kilobytes."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(width + 1)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def test_what_cannot_be_exported_is_refused(trained, tmp_path, shardmill):
    with pytest.raises(InputError, match=r"No run.json .* Pass the --run-dir"):
        export(ExportOptions(tmp_path, tmp_path / "out"))
    with pytest.raises(UsageError, match="is for --to tflite"):
        ExportOptions(trained.run, tmp_path, quantize="int8")
    with pytest.raises(UsageError, match="Pass one or more of none, dynamic"):
        ExportOptions(trained.run, tmp_path, to="tflite", quantize="int4")
    with pytest.raises(InputError, match="Neither a run nor an exported model"):
        open_predictor(tmp_path)
    assert shardmill("predict", trained.run).returncode == 2


@pytest.mark.proof
def test_quantized_models_are_compared(trained, tmp_path, shardmill):
    """Each run by the LiteRT interpreter on the same records."""
    out = tmp_path / "phone"
    flags = ("--to", "tflite", "--quantize", "none,dynamic,float16,int8", "--evaluate")
    done = shardmill("export", trained.run, *flags, "--max-records", 40, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    models = {row["name"]: row for row in json.loads((out / "export.json").read_text())["models"]}
    assert list(models) == ["keras", "none", "dynamic", "float16", "int8"]
    assert models["none"]["accuracy"] == models["keras"]["accuracy"]
    for row in models.values():
        assert row["records"] == 40 and row["milliseconds"] > 0
        assert row["gzip_bytes"] < row["size_bytes"] or row["size_bytes"] < 10_000
    assert (out / "labels.txt").read_text().split()[:2] == ["dress", "hat"]


def test_an_onnx_file_predicts_the_same(trained, tmp_path):
    from inference.export.onnx import session

    export(ExportOptions(trained.run, tmp_path, to="onnx"))
    noise = np.random.default_rng(0).uniform(0, 255, (3, 32, 32, 3)).astype(np.float32)
    expected = in_float32(open_run(trained.run).model)(noise).numpy()
    np.testing.assert_allclose(session(tmp_path / "model.onnx")(noise), expected, atol=ROUNDING)


def test_onnx_says_what_it_cannot_represent(tmp_path):
    from inference.export.onnx import write_onnx

    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(2, activation="gelu")(inputs))
    with pytest.raises(InputError, match=r"ONNX cannot represent this model: .*Erfc"):
        write_onnx(model, np.zeros((1, 4), np.float32), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_nothing_to_predict_is_an_error(trained, shardmill, tmp_path):
    (tmp_path / "empty").mkdir()
    done = shardmill("predict", trained.served, tmp_path / "empty", "--json")
    assert done.returncode == 3 and json.loads(done.stdout)["code"] == 3
    assert f"error: Nothing to predict in {tmp_path / 'empty'}: an empty folder" in done.stderr
