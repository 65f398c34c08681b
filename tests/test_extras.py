"""Installations without some extras: what works, and the message where an extra is missing."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from foundation.extras import EXTRAS

# Runs a program as if the modules in sys.argv[1] were not installed.
HIDING = """
import importlib.abc, runpy, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

hidden = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Hidden())
module, program = sys.argv[2:4]
sys.argv = [module, *sys.argv[4:]]
if program:
    exec(program)
else:
    runpy.run_module(module, run_name="__main__")
"""
# The modules of each extra that no other one needs: Beam needs yaml too.
OWN = {extra: [name for name in names if name != "yaml"] for extra, names in EXTRAS.items()}
ALL = [module for modules in EXTRAS.values() for module in modules]


@pytest.fixture(scope="module")
def without(repository, tmp_path_factory):
    """Runs a module, or a program, in a process without some modules."""
    script = tmp_path_factory.mktemp("hiding") / "hiding.py"
    script.write_text(HIDING)

    def run(hidden, module, *arguments, program=""):
        command = [sys.executable, str(script), ",".join(hidden), module, program]
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
            env={"PYTHONPATH": str(repository)},
        )

    return run


@pytest.fixture(scope="module")
def shard_set(repository, samples, tmp_path_factory, without):
    """A set that an installation without the extra "train" built."""
    out = tmp_path_factory.mktemp("extras") / "set"
    arguments = ("preprocess", "images", samples, "--out", out, "--resize", "shorter:32")
    done = without(OWN["train"], "cli.main", *arguments)
    assert done.returncode == 0, done.stderr
    return out


def test_every_package_of_an_extra_is_known(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    homes = importlib.metadata.packages_distributions()
    for extra, modules in EXTRAS.items():
        packages = {re.split("[><=[ ]", line)[0] for line in extras[extra]}
        # The module google is of many packages; `storage/gcs_uploads.py` says which one it needs.
        packages -= {"google-cloud-storage", "shardmill"}  # the latter: an extra includes another
        # Not installed here: they bring PyTorch, or are built by a compiler.
        if extra not in ("mds", "litdata", "kenlm"):
            known = {package.lower() for module in modules for package in homes[module]}
            assert packages == known
        assert not packages & {re.split("[><=[]", line)[0] for line in project["dependencies"]}


def _with_dependencies(requirements):
    """The names of some packages and of all that they depend on, as installed here."""
    needs, left = {}, [Requirement(line) for line in requirements]
    while left:
        wanted = left.pop()
        name, extras = wanted.name.lower().replace("_", "-"), frozenset(wanted.extras)
        if extras <= needs.get(name, frozenset()) and name in needs:
            continue
        needs[name] = needs.get(name, frozenset()) | extras
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            of_extras = [{"extra": extra} for extra in (*extras, "")]
            if needed.marker is None or any(map(needed.marker.evaluate, of_extras)):
                left.append(needed)
    return set(needs)


def test_a_worker_of_dataflow_is_installed_from_the_pinned_packages_of_prepare(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + project["optional-dependencies"]["prepare"]
    lines = (repository / "samples" / "dataflow" / "requirements.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    in_image = _with_dependencies(["apache-beam"]) - {"numpy", "pillow", "pyarrow"}
    assert set(pinned) == _with_dependencies(needed) - in_image
    known = (repository / "constraints.txt").read_text().splitlines()
    pins = dict(line.partition(" ;")[0].split("==") for line in known if "==" in line)
    assert pinned == {name: pins[name] for name in pinned}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["preprocess", "text", "--help"], ["train", "--help"], ["--version"]]
)
def test_help_needs_no_extra(without, arguments):
    assert without(ALL, "cli.main", *arguments).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["inspect"], ["verify"], ["quarantine", "list"], ["report", "--json"], ["export-index"]],
)
def test_a_set_is_looked_at_without_extras(without, shard_set, arguments):
    done = without(ALL, "cli.main", *arguments, shard_set)
    assert done.returncode == 0, done.stderr


def test_batches_are_read_without_extras(without, shard_set):
    program = f"""
import reader
stream = reader.load({str(shard_set)!r}, batch_size=4, image_size=32, augment="standard,mixup")
images, labels = next(iter(stream))
print(images.shape)
"""
    done = without(ALL, "program", program=program)
    assert done.returncode == 0, done.stderr
    assert "(4, 32, 32, 3)" in done.stdout


def test_single_records_are_read_without_extras(without, shard_set):
    program = f"import reader; print(reader.random_access({str(shard_set)!r})[0]['image'].shape)"
    done = without(ALL, "program", program=program)
    assert done.returncode == 0, done.stderr
    assert "3)" in done.stdout


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("prepare", ["preprocess", "images", "SET", "--out", "OUT"]),
        ("prepare", ["preprocess", "text", "SET", "--out", "OUT"]),
        ("train", ["read", "SET", "--seconds", "1"]),
        ("train", ["train", "SET", "--model", "small_cnn"]),
        ("train", ["doctor", "SET", "--model", "small_cnn"]),
        ("view", ["view", "SET"]),
    ],
)
def test_a_missing_extra_is_one_line_with_the_command(
    without, shard_set, tmp_path, extra, arguments
):
    places = {"SET": shard_set, "OUT": tmp_path / "out"}
    done = without(OWN[extra], "cli.main", *(places.get(text, text) for text in arguments))
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    *_, line = done.stderr.splitlines()
    assert re.fullmatch(
        rf"error: \w+ is not installed. Run: pip install 'shardmill\[{extra}\]'", line
    )


def test_a_missing_extra_is_an_error_in_python_too(without, shard_set):
    for hidden, use in (
        ("prepare", "import beam_jobs; beam_jobs.preprocess"),
        (
            "train",
            f"import reader; reader.load({str(shard_set)!r}, batch_size=4, image_size=32).dataset",
        ),
        ("train", f"import trainer as t; t.train(t.TrainOptions({str(shard_set)!r}, 'run'))"),
    ):
        program = f"try:\n    {use}\nexcept ImportError as error:\n    print(error)"
        done = without(OWN[hidden], "program", program=program)
        assert f"pip install 'shardmill[{hidden}]'" in done.stdout, done.stderr


@pytest.fixture(scope="session")
def distributions(repository, tmp_path_factory):
    """By suffix, the files that `python -m build` makes for a release."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir", str(folder), str(repository)]
    subprocess.run(build, check=True, capture_output=True)
    return {path.suffix: path for path in folder.iterdir()}


@pytest.mark.proof
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("suffix", "extra"), [*((".whl", extra) for extra in (*EXTRAS, "all")), (".gz", "prepare")]
)
def test_a_release_in_a_fresh_environment_does_its_part(
    suffix, extra, distributions, repository, samples, shard_set, tmp_path
):
    """Installs what a release consists of, then builds a set, or reads and trains one epoch."""

    def run(*command, code=0):
        done = subprocess.run(
            [str(argument) for argument in command],
            cwd=tmp_path,  # not the repository, whose packages would be found first
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    binaries = tmp_path / "venv" / "bin"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    requirement = f"shardmill[{extra}] @ {distributions[suffix].as_uri()}"
    # MosaicML Streaming needs an older NumPy than the one that is pinned.
    constraints = () if extra == "mds" else ("--constraint", repository / "constraints.txt")
    run(binaries / "python", "-m", "pip", "install", "--quiet", *constraints, requirement)
    shardmill, out = binaries / "shardmill", tmp_path / "set"
    prepare = (shardmill, "preprocess", "images", samples, "--out", out, "--resize", "shorter:32")
    read = (shardmill, "read", shard_set, "--seconds", "1", "--image-size", "32")
    train = (shardmill, "train", shard_set, "--model", "small_cnn", "--epochs", "1")
    train = (*train, "--image-size", "32", "--run-dir", tmp_path / "run")
    if extra == "jax":
        train = (*train, "--backend", "jax")
    parts = {"prepare": [prepare], "train": [read, train]}
    heic = (binaries / "python", "-c", "import pi_heif")
    run(*heic, code=0 if extra in ("all", "heic") else 1)
    installs = (extra, "train") if extra in ("export", "jax") else (extra,)
    for name, commands in parts.items():
        for command in commands:
            if extra == "all" or name in installs:
                run(*command)
            else:
                assert f"pip install 'shardmill[{name}]'" in run(*command, code=3)
    # Others may come along: TensorFlow requires charset-normalizer.
    for module, of in {"apache_beam": "prepare", "tensorflow": "train", "keras": "train"}.items():
        find = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
        run(binaries / "python", "-c", find, code=0 if extra == "all" or of in installs else 1)


READS = """
import time
begin = time.perf_counter()
import reader
stream = reader.load({directory!r}, batch_size=8, image_size=32, augment="standard,mixup", seed=1)
batches = iter(stream)
next(batches)
seconds = time.perf_counter() - begin
import sys
assert not {{"tensorflow", "keras", "apache_beam"}} & set(sys.modules)
next(batches)
stream.load_state_dict(stream.state_dict())
rest = stream.first_step
assert rest == 2
print("first batch after", round(seconds, 2), "s")
"""
USES = {
    "": "",
    "torch==2.15.0": """
import torch
stream = reader.load({directory!r}, batch_size=8, image_size=32, epochs=1)
loader = torch.utils.data.DataLoader(stream.torch(), batch_size=None, num_workers=2)
assert [tuple(images.shape) for images, _ in loader][0] == (8, 32, 32, 3)
assert "tensorflow" not in sys.modules
""",
    "jax==0.10.2 keras": """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import reader.keras
stream = reader.load({directory!r}, batch_size=8, image_size=32)
model = keras.Sequential(
    [keras.Input((32, 32, 3)), keras.layers.Flatten(), keras.layers.Dense(99, "softmax")]
)
model.compile("sgd", "sparse_categorical_crossentropy")
backup = reader.keras.Backup("backup", stream, save_freq=2)
model.fit(stream.jax(), steps_per_epoch=5, epochs=2, callbacks=[backup], verbose=0)
assert "tensorflow" not in sys.modules
""",
}


@pytest.mark.proof
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("packages", USES)
def test_batches_are_read_in_a_fresh_environment(
    packages, distributions, repository, shard_set, tmp_path
):
    """With what reading needs, and with the frameworks that are not TensorFlow."""
    python = tmp_path / "venv" / "bin" / "python"
    requirement = f"shardmill[read] @ {distributions['.whl'].as_uri()}"
    install = (python, "-m", "pip", "install", "--quiet", "--constraint")
    program = (READS + USES[packages]).format(directory=str(shard_set))
    try:
        for command in (
            (sys.executable, "-m", "venv", tmp_path / "venv"),
            (*install, repository / "constraints.txt", requirement, *packages.split()),
            (python, "-c", program),
        ):
            done = subprocess.run(
                list(map(str, command)),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            )
            assert done.returncode == 0, done.stderr
        assert "first batch after" in done.stdout
        find = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is not None)"
        assert subprocess.run([python, "-c", find], check=False).returncode == 0
    finally:
        shutil.rmtree(tmp_path / "venv", ignore_errors=True)  # of PyTorch, 7 GB
