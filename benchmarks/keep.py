"""The gain of `--quality keep`: `python -m benchmarks.keep SRC [--records 16800] [--repeat 3]`.

SRC holds JPEG files in class folders. Files that need no change are kept and encoded again, in
turns: at their own size (`--resize none`), and, scaled to a shorter side of 256 before, with
`--resize shorter:256`. Results go to benchmarks/results/keep.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.encode import encode_jpeg
from beam_jobs.images.jpeg_passthrough import needs_no_change, shrunk
from beam_jobs.images.resize import Resize, parse_resize, resize_image
from beam_jobs.images.statistics import count_pixels
from benchmarks.measure import Run, machine, run

_HERE = Path(__file__).parent
_QUALITY = 90
_MAX_PIXELS = 10**8
_DECODING = DecodingOptions(_MAX_PIXELS)
_RESIZES = ("none", "shorter:256")
_KERNEL_FILES = 200


def main() -> None:
    """Runs everything, prints it, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keep", description=__doc__)
    parser.add_argument("source", type=Path, metavar="SRC", help="JPEG files in class folders")
    parser.add_argument(
        "--records", type=int, default=16_800, help="number of records, by copying files"
    )
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.source.rglob("*.jpg") if _is_kept(path))
    results: dict[str, Any] = {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.keep SRC --records {arguments.records} "
        f"--repeat {arguments.repeat}",
        "files": len(files),
        "records": arguments.records,
    }
    for text in _RESIZES:
        resize = parse_resize(text)
        corpus = arguments.work / f"keep-{text.replace(':', '-')}"
        mean_bytes = _make_corpus(corpus, files, arguments.records, resize)
        results[text] = {
            "mean_bytes": round(mean_bytes),
            "kernels_us": _kernels(sorted(corpus.rglob("*.jpg"))[:_KERNEL_FILES], resize),
            **_compare(corpus, arguments.work / "out", text, arguments.repeat),
        }
    file = _HERE / "results" / "keep.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _is_kept(path: Path) -> bool:
    return needs_no_change(path.read_bytes()) is not None


def _make_corpus(folder: Path, files: list[Path], records: int, resize: Resize) -> float:
    """Writes the corpus; the mean size of its files in bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    contents = [(path.parent.name, _sized(path.read_bytes(), resize)) for path in files]
    total = 0
    for number, (name, data) in zip(range(records), itertools.cycle(contents), strict=False):
        target = folder / name / f"{number:06d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        total += len(data)
    return total / records


def _sized(data: bytes, resize: Resize) -> bytes:
    if resize.mode == "none":
        return data
    pixels = resize_image(decode_image(data, _DECODING).pixels, resize, _MAX_PIXELS)
    return encode_jpeg(pixels, _QUALITY)


def _kernels(files: list[Path], resize: Resize) -> dict[str, float]:
    """Microseconds per record on one core, by kernel: the limit of the ratios below."""
    data = [path.read_bytes() for path in files]
    images = [decode_image(one, _DECODING).pixels for one in data]
    return {
        "decode": _microseconds(lambda one: decode_image(one, _DECODING), data),
        "resize": _microseconds(lambda one: resize_image(one, resize, _MAX_PIXELS), images),
        "encode": _microseconds(lambda one: encode_jpeg(one, _QUALITY), images),
        "look at the header": _microseconds(needs_no_change, data),
        "decode at an eighth": _microseconds(shrunk, data),
        "count pixels": _microseconds(count_pixels, images),
    }


def _microseconds(kernel: Callable[[Any], object], values: list[Any]) -> float:
    times = []
    for _ in range(5):
        begun = time.process_time()
        for value in values:
            kernel(value)
        times.append(time.process_time() - begun)
    return round(min(times) / len(values) * 1e6, 1)


def _compare(corpus: Path, out: Path, resize: str, repeat: int) -> dict[str, Any]:
    """Encoding again and keeping in turns; ratios are within a turn, and their median counts."""
    runs: dict[str, list[Run]] = {"encode": [], "keep": []}
    for turn in range(repeat):
        for name, quality in (("encode", _QUALITY), ("keep", "keep")):
            one = run("shardmill_preprocess", corpus, out, "off", resize, quality)
            runs[name].append(one)
            print(f"{resize} {turn + 1}/{repeat} {name}: {one}", flush=True)
    pairs = list(zip(runs["keep"], runs["encode"], strict=True))
    found: dict[str, Any] = {
        "ratio": round(statistics.median(keep.rate / encode.rate for keep, encode in pairs), 2),
        "cpu_ratio": round(
            statistics.median(
                (encode.cpu_seconds or 0) / (keep.cpu_seconds or 1) for keep, encode in pairs
            ),
            2,
        ),
    }
    print(f"{resize}: {found}", flush=True)
    for name, own in runs.items():
        found[name] = {
            "records_per_second": round(statistics.median(one.rate for one in own), 1),
            "runs": [dataclasses.asdict(one) for one in own],
        }
    return found


if __name__ == "__main__":
    main()
