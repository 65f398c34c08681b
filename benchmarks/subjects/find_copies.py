"""Altered copies among photographs, as a tool groups them: `TOOL FOLDER SCRATCH`.

A copy of NAME.jpg is named NAME~KIND.jpg.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.subjects.clock import measure

Groups = Iterable[Iterable[str]]  # names of files that a tool takes for the same


def group_shardmill(folder: Path, scratch: Path) -> Groups:
    """A build with --dedup near, and the list of what it left out."""
    import pyarrow.parquet as pq

    from beam_jobs import ImageOptions, preprocess

    out = scratch / "set"
    options: dict[str, Any] = {"dedup": "near", "no_labels": True, "no_report": True}
    preprocess(ImageOptions((str(folder),), str(out), **options))
    rows = pq.read_table(out / "duplicates.parquet", columns=["record_id", "kept_id"])
    return [(row["record_id"], row["kept_id"]) for row in rows.to_pylist()]


def group_cleanvision(folder: Path, scratch: Path) -> Groups:
    """CleanVision's exact and near duplicates, with its defaults."""
    from cleanvision import Imagelab

    lab = Imagelab(data_path=str(folder))
    lab.find_issues({"exact_duplicates": {}, "near_duplicates": {}}, verbose=False)
    groups: list[list[str]] = []
    for kind in ("exact_duplicates", "near_duplicates"):
        groups += lab.info.get(kind, {}).get("sets", [])
    return groups


def group_imagededup(folder: Path, scratch: Path) -> Groups:
    """The perceptual hash of imagededup, with its defaults."""
    from imagededup.methods import PHash

    same = PHash(verbose=False).find_duplicates(image_dir=str(folder), recursive=True)
    return [[name, *others] for name, others in same.items() if others]


TOOLS: dict[str, tuple[str, Callable[[Path, Path], Groups]]] = {
    "shardmill": ("beam_jobs.run", group_shardmill),
    "cleanvision": ("cleanvision", group_cleanvision),
    "imagededup": ("imagededup.methods", group_imagededup),
}


def _score(files: list[str], groups: Groups) -> dict[str, float]:
    """Copies that are in a group with their original, and photographs together with others."""
    parent = {name: name for name in files}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for group in groups:
        names = [Path(name).name for name in group]
        for name in names[1:]:
            parent[root(name)] = root(names[0])
    members = defaultdict(set)
    for name in files:
        members[root(name)].add(_original(name))
    copies = [name for name in files if "~" in name]
    together = [name for name in copies if root(name) == root(_original(name))]
    wrong = sum(len(originals) for originals in members.values() if len(originals) > 1)
    return {"copies": len(copies), "recall": 100 * len(together) / len(copies), "wrong": wrong}


def _original(name: str) -> str:
    return name.split("~")[0] + ".jpg" if "~" in name else name


def main() -> None:
    """Arguments: TOOL FOLDER SCRATCH."""
    tool, folder, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    module, group = TOOLS[tool]
    importlib.import_module(module)
    files = sorted(path.name for path in folder.rglob("*.jpg"))
    details: dict[str, Any] = {}

    def find() -> int:
        details.update(_score(files, group(folder, scratch)))
        return len(files)

    measure(find, details)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
