"""The commands of docs/training.md and docs/workers.md run, on small sets and models."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.engines.processes import free_port

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def blocks(repository):
    """From the name of a page to its blocks of commands."""

    def blocks(page: str) -> list[str]:
        text = (repository / "docs" / page).read_text(encoding="utf-8")
        return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)

    return blocks


@pytest.fixture(scope="module")
def small_set(run, folder):
    options = "--out set --resize shorter:64 --split train=0.75,validation=0.15,test=0.1"
    done = run("shardmill", "preprocess", "images", "samples/clothing", *options.split())
    assert done.returncode == 0, done.stderr
    return folder / "set"


def substituted(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_fine_tuning_in_two_phases(blocks, small_set, run, folder):
    """With a network that starts faster than ResNet-50."""
    import keras

    theirs = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=7)
    theirs.save(folder / "mobilenet.h5")
    (block,) = blocks("training.md")
    command = substituted(
        block.removeprefix("$ "),
        ("--model resnet50 --image-size 224", "--model mobilenet_v2 --image-size 32"),
        ("resnet50.h5", "mobilenet.h5"),
        ("--head-epochs 5", "--head-epochs 1 --epochs 1"),
    )
    done = run("sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert "note: the file with the weights has none for this head; it is trained" in done.stderr
    for path in ("model.keras", "head/model.keras"):
        assert (folder / "tuned" / path).exists()


def test_a_run_is_evaluated(repository, small_set, run, folder):
    train = "--image-size 32 --epochs 1 --run-dir measured"
    done = run("shardmill", "train", "set", *train.split())
    assert done.returncode == 0, done.stderr
    text = (repository / "docs" / "training.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("$ shardmill evaluate run")]
    assert len(commands) == 3
    for command in commands:
        done = run("sh", "-c", substituted(command.removeprefix("$ "), (" run", " measured")))
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["split"] == "validation"
    assert (folder / "evaluation.html").stat().st_size > 1000
    commands = [line for line in text.splitlines() if line.startswith("$ shardmill runs ")]
    assert len(commands) == 2
    for command in commands:
        done = run("sh", "-c", command.removeprefix("$ ").replace("runs run", "runs measured"))
        assert done.returncode == 0, done.stderr
    assert "measured" in {one["run"] for one in json.loads(done.stdout)["runs"]}
    assert (folder / "runs.html").stat().st_size > 1000


def test_layers_on_two_devices(blocks, small_set, run, folder):
    command = blocks("workers.md")[-1].strip() + " --model small_cnn --image-size 32 --epochs 1"
    done = run("sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert "stage 2 of 2 on CPU:1" in done.stderr
    stages = (folder / "stages-run" / "stages.txt").read_text().splitlines()
    assert {line.partition(" ")[0] for line in stages} == {"1", "2"}


def test_jax_on_one_device_and_on_a_mesh(blocks, small_set, run, folder):
    block = blocks("workers.md")[-2].strip()
    small = " --model small_cnn --image-size 32 --epochs 1"
    done = run("sh", "-ec", block.replace(" --epochs 2", small) + small)
    assert done.returncode == 0, done.stderr
    for name in ("on-jax", "on-mesh"):
        done = run("shardmill", "evaluate", name, "--json")
        assert done.returncode == 0, done.stderr


def test_workers_on_one_machine_and_on_several(blocks, small_set, run, folder):
    local, several, *_ = blocks("workers.md")  # the others are about parameter servers
    done = run("sh", "-c", local.removeprefix("$ ").strip() + " --epochs 1 --head-epochs 1")
    assert done.returncode == 0, done.stderr
    assert (folder / "run" / "workers" / "worker-1.log").exists()

    script = substituted(
        several,
        ("10.0.0.1:2222", f"localhost:{free_port()}"),
        ("10.0.0.2:2222", f"localhost:{free_port()}"),
        ("/data/set", "set"),
        ("--run-dir /data/run", "--run-dir apart --epochs 1"),
    )
    environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder)}
    workers = [
        subprocess.Popen(
            ["sh", "-c", script.replace('"index": 0', f'"index": {index}')],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    for worker in workers:
        _, said = worker.communicate()
        assert worker.returncode == 0, said
    assert json.loads((folder / "apart" / "run.json").read_text())["final"]["epoch"] == 1
