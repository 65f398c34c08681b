"""The corpus of a benchmark: real photographs, repeated under other names."""

from __future__ import annotations

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
# 560 photographs if the developers' corpora are next to the repository, else the 320 samples.
_DEVELOPERS = REPOSITORY.parent / "shared" / "corpora" / "clothing"
_SAMPLES = REPOSITORY / "samples" / "clothing"


def photographs() -> list[Path]:
    """The distinct photographs, sorted."""
    if _DEVELOPERS.is_dir():
        return sorted(_DEVELOPERS.rglob("*.jpg"))
    # Without the deliberate faults of the samples, at which other programs would stop.
    return [path for path in sorted(_SAMPLES.rglob("*-*-*-*-*.jpg")) if " " not in path.name]


def make_corpus(folder: Path, count: int) -> Path:
    """A corpus of `count` real files in class folders, created once and reused."""
    done = folder / "complete"
    if done.exists() and done.read_text() == str(count):
        return folder / "photos"
    shutil.rmtree(folder, ignore_errors=True)
    found = photographs()
    for number in range(count):
        source = found[number % len(found)]
        target = folder / "photos" / source.parent.name / f"{number:06d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    done.write_text(str(count))
    return folder / "photos"
