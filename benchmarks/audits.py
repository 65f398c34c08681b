"""Planted faults of images, and what audits find of them: `python -m benchmarks.audits [CORPUS]`.

2,000 images are made of photographs: 1,900 crops, and copies of 100 of them. Some are blurred or
dark, the altered copies are in the other half, and 5 % have another label. The label is the corner
that a crop was taken from, which is known of each, and which a small network learns. Two networks,
each trained on one half, judge the other one. Precision and recall of `shardmill audit`, of
CleanVision on the same files, and of cleanlab on the same probabilities.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq

from beam_jobs import ImageOptions, preprocess
from beam_jobs.images.decode import DecodingOptions, Pixels, decode_image
from beam_jobs.images.encode import encode_jpeg
from benchmarks.copies import COPIES, MAX_PIXELS
from benchmarks.corpus import photographs
from benchmarks.measure import Run, parser, run, write
from shard_format import load_manifest, open_index

_SEED = 7
_QUALITY = 90
_CORNERS = {"top left": (0, 0), "top right": (0, 1), "bottom left": (1, 0), "bottom right": (1, 1)}
_PART = 0.6  # of both sides, so that crops of a photograph share little
_KINDS = ("resize 0.25 to 2", "JPEG quality 50", "crop 5 %", "tone")
_BLUR, _DARK = (1.5, 4.0), (0.05, 0.3)  # pixels of the Gaussian; factors of the light
_FIRST = (50, 100)  # label errors, of which it is counted how many were planted
_HALVES = ("train", "test")  # of which each is trained on by a run


@dataclasses.dataclass
class PlantedFaults:
    """The images, and what was planted; names are relative to the folder.

    Attributes:
        folder: Folder with the images.
        blurred: Names of blurred images.
        dark: Names of dark images.
        wrong: Names of images with another label.
        pairs: The original of each copy, which is in the other half.
        halves: The half of each image.
    """

    folder: Path
    blurred: list[str]
    dark: list[str]
    wrong: list[str]
    pairs: dict[str, str]
    halves: dict[str, str]


def main() -> None:
    """Plants the faults, trains, looks for them, writes the results."""
    arguments = parser("audits", __doc__, turns=False)
    arguments.add_argument("corpus", nargs="?", type=Path, help="a folder of photographs")
    arguments.add_argument("--images", type=int, default=2000)
    arguments.add_argument("--epochs", type=int, default=20)
    arguments.add_argument("--peers", type=Path, default=Path(".peers/audits"))
    chosen = arguments.parse_args()
    files = sorted(chosen.corpus.rglob("*.jpg")) if chosen.corpus else photographs()
    work = chosen.work / "audits"
    shutil.rmtree(work, ignore_errors=True)
    planted = _plant(work, files, chosen.images)
    options: dict[str, Any] = {"labels": str(work / "labels.csv"), "split": "column:split"}
    options |= {"resize": "shorter:224", "dedup": "off", "no_report": True}
    preprocess(ImageOptions((str(planted.folder),), str(work / "set"), **options))
    runs = [_train(work, half, chosen.epochs) for half in _HALVES]
    ours, rate = _audit(work, runs)
    labels, names = _judged(work, runs)
    python = str(chosen.peers / "bin" / "python")
    looked = run("find_faults", "cleanvision", planted.folder, python=python)
    judged = run("find_faults", "cleanlab", labels, python=python)
    errors = [names[place] for place in judged.details["errors"]]
    right = {
        "blurred": _scored(ours["blurred"], planted.blurred),
        "dark": _scored(ours["dark"], planted.dark),
        "across-splits": _scored_pairs(ours["across-splits"].items(), planted),
        "label-error": _scored(ours["label-error"], planted.wrong),
    }
    copies = _across(looked.details["copies"], planted)
    peers = {
        "blurred": _scored(looked.details["blurry"], planted.blurred),
        "dark": _scored(looked.details["dark"], planted.dark),
        "across-splits": _scored_pairs(copies, planted),
        "label-error": _scored(errors, planted.wrong),
    }
    common = len(set(errors) & set(ours["label-error"]))
    ranked = list(ours["label-error"])  # the worst first
    results = {
        "images": len(planted.halves),
        "planted": {
            "blurred": len(planted.blurred),
            "dark": len(planted.dark),
            "across-splits": len(planted.pairs),
            "label-error": len(planted.wrong),
        },
        "accuracy": _accuracy(labels),
        "shardmill": right,
        "peers": peers,
        "label_errors": {"shardmill": len(ours["label-error"]), "cleanlab": len(errors)}
        | {"both": common},
        "wrong_labels_among_first": {
            str(count): len(set(ranked[:count]) & set(planted.wrong)) for count in _FIRST
        },
        "records_per_second": {"shardmill": rate, "cleanvision": _rate(looked)},
    }
    for name, scores in right.items():
        print(f"{name:<16}{scores}  peer {peers[name]}")
    print(results["label_errors"], results["accuracy"], results["records_per_second"])
    write("audits", results)


def _plant(work: Path, files: list[Path], count: int) -> PlantedFaults:
    generator = np.random.default_rng(_SEED)
    twentieth = count // 20
    files = [files[place] for place in generator.permutation(len(files))]
    crops = [(file, corner) for file in files for corner in _CORNERS][: count - twentieth]
    if len(crops) < count - twentieth:
        raise SystemExit(f"{len(files)} photographs make {len(crops)} crops. Pass --images less.")
    order = generator.permutation(len(crops)).tolist()
    blurred, dark, copied = (set(order[n * twentieth : (n + 1) * twentieth]) for n in range(3))
    planted = PlantedFaults(work / "photos", [], [], [], {}, {})
    rows: list[tuple[str, str, str]] = []
    planted.folder.mkdir(parents=True)

    def add(name: str, data: bytes, label: str, half: str) -> None:
        (planted.folder / name).write_bytes(data)
        planted.halves[name] = half
        rows.append((name, label, half))

    for number, (file, corner) in enumerate(crops):
        pixels, name = _crop(file, *_CORNERS[corner]), f"{number:05d}.jpg"
        half = _HALVES[int(generator.integers(2))]
        if number in blurred:
            pixels = cv2.GaussianBlur(pixels, (0, 0), generator.uniform(*_BLUR))
            planted.blurred.append(name)
        if number in dark:
            pixels = (pixels * generator.uniform(*_DARK)).astype(np.uint8)
            planted.dark.append(name)
        add(name, encode_jpeg(pixels, _QUALITY), corner, half)
        if number in copied:
            kind, other = _KINDS[number % len(_KINDS)], f"{number:05d}-copy.jpg"
            half = _HALVES[1 - _HALVES.index(half)]
            add(other, COPIES[kind](pixels, generator), corner, half)
            planted.pairs[other] = name
    for place in generator.permutation(len(rows))[:twentieth].tolist():
        name, label, half = rows[place]
        wrong = str(generator.choice([one for one in _CORNERS if one != label]))
        rows[place] = (name, wrong, half)
        planted.wrong.append(name)
    with (work / "labels.csv").open("w", newline="") as table:
        csv.writer(table).writerows([("path", "label", "split"), *rows])
    return planted


def _crop(file: Path, *corner: int) -> Pixels:
    pixels = decode_image(file.read_bytes(), DecodingOptions(MAX_PIXELS)).pixels
    sides = [round(_PART * side) for side in pixels.shape[:2]]
    top, left = (
        at * (whole - side) for at, whole, side in zip(corner, pixels.shape, sides, strict=False)
    )
    return np.ascontiguousarray(pixels[top : top + sides[0], left : left + sides[1]])


def _shardmill(*words: object) -> str:
    command = [sys.executable, "-c", "from cli.main import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def _train(work: Path, half: str, epochs: int) -> Path:
    words = ("train", work / "set", "--model", "small_cnn", "--image-size", 48, "--seed", _SEED)
    halves = (
        "--train-split",
        half,
        "--validation-split",
        "none",
        "--epochs",
        epochs,
        "--augment",
        "none",
    )
    _shardmill(*words, *halves, "--batch-size", 32, "--run-dir", work / half)
    return work / half


def _audit(work: Path, runs: list[Path]) -> tuple[dict[str, dict[str, str]], float]:
    """By check the other record of each record that is found; and records per second."""
    of_runs = [word for one in runs for word in ("--run", one)]
    said = json.loads(_shardmill("audit", work / "set", "--out", work / "out", "--json", *of_runs))
    rows = pq.read_table(said["table"]).to_pylist()
    by_check: dict[str, dict[str, str]] = {name: {} for name in said["thresholds"]}
    for row in rows:
        by_check[row["finding"]][row["record_id"]] = row["other"]
    return by_check, round(said["read"] / said["seconds"], 1)


def _judged(work: Path, runs: list[Path]) -> tuple[Path, list[str]]:
    """A file with labels and probabilities of all images, and their names."""
    from inference.evaluation.predictions import predict_records

    manifest, names, labels, values = load_manifest(work / "set"), list[str](), [], []
    with tempfile.TemporaryDirectory() as folder:
        made = predict_records(runs, work / "set", Path(folder))
        for split, probabilities in made.splits.items():
            index = open_index(work / "set" / manifest.index_file(split))
            names += index["record_id"].to_pylist()
            labels.append(index["label"].to_numpy())
            values.append(np.array(probabilities))
    file = work / "predictions.npz"
    np.savez(file, labels=np.concatenate(labels), probabilities=np.concatenate(values))
    return file, names


def _accuracy(file: Path) -> float:
    with np.load(file) as given:
        right = given["probabilities"].argmax(axis=1) == given["labels"]
    return round(float(right.mean()), 3)


def _across(groups: list[list[str]], planted: PlantedFaults) -> list[tuple[str, str]]:
    """(image of the second half, one of the first half) of groups in both."""
    pairs = []
    for group in groups:
        first, second = (
            [name for name in group if planted.halves[name] == half] for half in _HALVES
        )
        pairs += [(name, first[0]) for name in second if first]
    return pairs


def _scored(named: Iterable[str], planted: Iterable[str]) -> dict[str, float]:
    named, planted = set(named), set(planted)
    right = len(named & planted)
    return _shares(right, len(named), len(planted))


def _scored_pairs(pairs: Iterable[tuple[str, str]], planted: PlantedFaults) -> dict[str, float]:
    known = {frozenset(pair) for pair in planted.pairs.items()}
    named = {frozenset(pair) for pair in pairs}
    return _shares(len(named & known), len(named), len(known))


def _shares(right: int, named: int, planted: int) -> dict[str, float]:
    return {
        "named": named,
        "precision": round(right / max(1, named), 3),
        "recall": round(right / max(1, planted), 3),
    }


def _rate(one: Run) -> float:
    return round(one.rate, 1)


if __name__ == "__main__":
    main()
