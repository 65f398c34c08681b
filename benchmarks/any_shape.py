"""Records of any shape: `python -m benchmarks.any_shape [--records N] [--images N]`.

Records from Python are compared with a bare loop that encodes the same in as many processes, and
images with seven boxes, with polygons besides, or with a caption, with the same images without.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import simplejpeg

from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, parser, run, take_turns, write

_SOURCE = "benchmarks.subjects.made_records:source"
_IMAGES = {"resize": "shorter:256", "no_labels": True, "split": "train=1", "dedup": "off"}
_OBJECTS = 7  # of an image, as in COCO


def main() -> None:
    """Measures both, prints tables and writes the results."""
    options = parser("any_shape", __doc__)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--images", type=int, default=2_100)
    chosen = options.parse_args()
    out, cores = chosen.work / "any-shape", psutil.cpu_count()
    corpus = make_corpus(chosen.work, chosen.images)
    folder = _annotate(corpus, chosen.work / f"any-shape-{chosen.images}")
    build = functools.partial(_build, corpus, out)
    records = {
        "the encoder alone": lambda: run("made_records", chosen.records, cores, out / "encoded"),
        "shardmill": lambda: _records(chosen.records, out),
    }
    images = {
        "images": lambda: build({}),
        "images with boxes": lambda: build({"annotations": str(folder / "boxes.json")}),
        "images with boxes and polygons": lambda: build(
            {"annotations": str(folder / "polygons.json")}
        ),
        "images with captions": lambda: build(
            {
                "labels": str(folder / "captions.jsonl"),
                "caption_column": "caption",
                "clean_captions": "nfc",
            }
        ),
    }
    results = {
        "records": chosen.records,
        "images": chosen.images,
        "of_records": take_turns("records from Python", records, chosen.turns),
        "of_images": take_turns("images", images, chosen.turns),
    }
    write("any_shape", results)


def _records(count: int, out: Path) -> Run:
    options = {"no_labels": True, "split": "train=1"}
    variables = {"SHARDMILL_MADE_RECORDS": str(count)}
    arguments = ("record", _SOURCE, out / "records", json.dumps(options))
    return run("shardmill_build", *arguments, variables=variables)


def _build(corpus: Path, out: Path, more: dict[str, Any]) -> Run:
    return run("shardmill_build", "image", corpus, out / "images", json.dumps(_IMAGES | more))


def _annotate(corpus: Path, folder: Path) -> Path:
    """A folder with objects and captions of a corpus; an existing one is taken again."""
    captions = folder / "captions.jsonl"
    if captions.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    images: list[Any] = []
    annotations: list[Any] = []
    lines: list[str] = []
    generator = np.random.default_rng(0)
    for number, path in enumerate(sorted(corpus.rglob("*.jpg"))):
        height, width = simplejpeg.decode_jpeg_header(path.read_bytes())[:2]
        name = path.relative_to(corpus).as_posix()
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        for corners in generator.uniform(0.05, 0.95, (_OBJECTS, 2, 2)):
            (top, left), (bottom, right) = np.sort(corners, axis=0) * (height, width)
            polygon = [left, top, right, top, (left + right) / 2, bottom]
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": number,
                    "category_id": int(generator.integers(1, 81)),
                    "bbox": [left, top, right - left, bottom - top],
                    "area": (right - left) * (bottom - top) / 2,
                    "iscrowd": 0,
                    "segmentation": [polygon],
                }
            )
        lines.append(json.dumps({"path": name, "caption": f"Photograph {number} of the corpus."}))
    categories = [{"id": number, "name": f"class {number}"} for number in range(1, 81)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "polygons.json").write_text(json.dumps(content))
    for one in annotations:
        del one["segmentation"]
    (folder / "boxes.json").write_text(json.dumps(content))
    captions.write_text("\n".join(lines))
    return folder


if __name__ == "__main__":
    main()
