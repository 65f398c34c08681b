"""Altered copies of photographs: which are found, and what is wrongly taken for a copy."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path

import numpy as np

from beam_jobs.images.decode import DecodingOptions, decode_image
from benchmarks.copies import COPIES, MAX_PIXELS
from benchmarks.corpus import photographs
from benchmarks.measure import Run, run
from benchmarks.scorecard.row import OURS, Bench, Column, Row, Subject, detail

_SEED = 7
_SMALL_COUNT = 24
_KINDS = ("resize 0.25", "JPEG quality 50", "crop 3 %", "crop 5 %", "tone", "EXIF rotation")
_CLEANVISION = "https://cleanvision.readthedocs.io/en/latest/tutorials/run.html"
_IMAGEDEDUP = "https://idealo.github.io/imagededup/user_guide/finding_duplicates/"


def _plant(bench: Bench) -> Path:
    """Photographs and their copies, in one folder for each class."""
    sources = photographs()[: _SMALL_COUNT if bench.is_small else None]
    folder = bench.work / f"copies-{len(sources)}"
    complete = folder / "complete"
    if complete.exists():
        return folder / "photos"
    shutil.rmtree(folder, ignore_errors=True)
    generator = np.random.default_rng(_SEED)
    for number, source in enumerate(sources):
        target = folder / "photos" / source.parent.name / f"{number:05d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        pixels = decode_image(source.read_bytes(), DecodingOptions(MAX_PIXELS)).pixels
        for kind in _KINDS:
            name = f"{target.stem}~{kind.replace(' ', '-').replace('%', 'percent')}.jpg"
            (target.parent / name).write_bytes(COPIES[kind](pixels, generator))
    complete.touch()
    return folder / "photos"


def _find(bench: Bench, tool: str) -> Run:
    python = sys.executable if tool == "shardmill" else bench.python("readers")
    scratch = bench.work / "found copies"
    shutil.rmtree(scratch, ignore_errors=True)
    return run("find_copies", tool, _plant(bench), scratch, python=python)


def _subjects(bench: Bench) -> list[Subject]:
    find = functools.partial(functools.partial, _find, bench)
    return [
        Subject("shardmill, --dedup near", OURS, find("shardmill")),
        Subject("CleanVision", "CleanVision", find("cleanvision"), "readers", _CLEANVISION),
        Subject("imagededup, PHash", "imagededup", find("imagededup"), "readers", _IMAGEDEDUP),
    ]


PLANTED_COPIES = Row(
    "copies",
    "altered copies of photographs are found",
    """
Six copies of every photograph are planted: a quarter of the size, JPEG of quality 50, cropped by 3
and by 5 %, another brightness and contrast, rotated with an EXIF orientation that says so. "Found"
is the share of copies that a tool groups with their original, with its defaults; "taken for others"
are photographs in one group with another one. What is not found can be in the training set and in
the test set. SemHash, for texts, needs a model from the network, and is left out.
""",
    (
        Column("found, %", detail("recall"), "more", 1),
        Column("taken for others", detail("wrong"), "less"),
        Column("photographs/s", lambda one: one.rate, "more"),
    ),
    _subjects,
    turns=1,
)
