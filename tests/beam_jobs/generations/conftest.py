"""Sets with generations, built in this thread: Beam would take longer than all of these jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

from beam_jobs.generations.append import append, run_here
from shard_format import Manifest, load_manifest, open_index

Corpus = dict[str, int]  # "class/name" -> seed of its pixels


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[..., Path]:
    """Writes images of noise: equal seeds are equal images."""

    def write(name: str, images: Corpus) -> Path:
        for path, seed in images.items():
            file = tmp_path / name / f"{path}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), np.uint8)
            file.write_bytes(simplejpeg.encode_jpeg(np.asarray(pixels), 90))
        (tmp_path / name).mkdir(exist_ok=True)
        return tmp_path / name

    return write


def _options(source: Path | Iterable[Path], out: Path, **values: Any) -> Any:
    from beam_jobs.options import OPTIONS

    sources = (source,) if isinstance(source, Path) else tuple(source)
    kind = OPTIONS[str(values.pop("kind", "image"))]
    values = {"no_report": True, "split": "train=0.6,test=0.4"} | values
    return kind(sources=tuple(map(str, sources)), out=str(out), **values)


class Killed(BaseException):
    """Not an Exception: no handler of ours may catch it, as none can catch SIGKILL."""


def die_after(renames: int, patch: pytest.MonkeyPatch) -> None:
    """Dies in place of a rename, a link or a deletion, after some of them."""
    left, functions = renames, {name: getattr(os, name) for name in ("replace", "unlink", "link")}

    def patched(name: str) -> None:
        def call(*paths: Any, **options: Any) -> None:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            functions[name](*paths, **options)

        patch.setattr(os, name, call)

    for name in functions:
        patched(name)


@pytest.fixture
def begin_set(tmp_path: Path) -> Callable[..., Manifest]:
    """Builds the first generation."""
    from beam_jobs.build import begin, finish, locked_output, resolve, workspace_of
    from beam_jobs.record_types import RECORD_TYPES

    def build(source: Path | Iterable[Path], out: str = "set", **values: Any) -> Manifest:
        job = resolve(_options(source, tmp_path / out, **values))
        record_type, workspace = RECORD_TYPES[job.record_type](job), workspace_of(job)
        with locked_output(workspace):
            started = begin(job, record_type, workspace, "test")
            run_here(job, record_type, started, workspace)
            finish(job, workspace, rebuilt=True)
        return load_manifest(tmp_path / out)

    return build


@pytest.fixture
def append_to(tmp_path: Path) -> Callable[..., Any]:
    """Appends a generation."""

    def run(source: Path | Iterable[Path], out: str = "set", **values: Any) -> Any:
        return append(_options(source, tmp_path / out, append=True, **values))

    return run


@pytest.fixture
def records_of(tmp_path: Path) -> Callable[..., dict[str, tuple[str, bytes]]]:
    """By id: the split of a record, and its frame."""

    def read(out: str = "set", generation: int | None = None) -> dict[str, tuple[str, bytes]]:
        root, found = tmp_path / out, {}
        manifest = load_manifest(root, generation)
        for split, info in manifest.splits.items():
            for row in open_index(root / manifest.index_file(split)).to_pylist():
                data = (root / info.shards[row["shard"]].file).read_bytes()
                frame = data[row["offset"] : row["offset"] + row["length"]]
                assert row["record_id"] not in found
                found[row["record_id"]] = (split, frame)
        return found

    return read
