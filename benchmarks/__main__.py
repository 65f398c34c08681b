"""Runs the benchmarks: `python -m benchmarks [--photographs 8400] [--repeat 3] [--work DIR]`.

Subjects take turns, so that a slow minute of the machine affects all of them; ratios are computed
within a turn, and their median counts. Results go to benchmarks/results/DATE.json.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import json
from pathlib import Path

from benchmarks.corpus import collage, make_corpus
from benchmarks.measure import Subjects, machine, run, take_turns
from benchmarks.profiles import with_profile

_HERE = Path(__file__).parent
_READ_SECONDS = 12
_PARTS = ("profiles", "preprocess", "memory", "read")


def main() -> None:
    """Runs everything, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--photographs", type=int, default=16_800, help="in the large corpus")
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    parser.add_argument("--only", choices=_PARTS, action="append")
    parser.add_argument("--without-peers", action="store_true", help="without TFDS")
    arguments = parser.parse_args()
    chosen = arguments.only or _PARTS
    large = make_corpus(arguments.work / f"corpus-{arguments.photographs}", arguments.photographs)
    small_count = arguments.photographs // 10
    small = make_corpus(arguments.work / f"corpus-{small_count}", small_count)
    out = arguments.work / "out"
    results: dict[str, object] = {"machine": machine(), "photographs": arguments.photographs}

    if "profiles" in chosen:
        # Photographs as cameras and phones write them, against a loop that converts no colours.
        folder = arguments.work / f"profiles-{arguments.photographs}"
        photos = make_corpus(folder, arguments.photographs, _collage_with_profile)
        results["preprocess, 12 % with profiles"] = take_turns(
            "profiles", _preprocessing(photos, out), arguments.repeat, alternating=True
        )
    if "preprocess" in chosen:
        folder = arguments.work / f"collages-{arguments.photographs}"
        photos = make_corpus(folder, arguments.photographs, collage)
        subjects = _preprocessing(photos, out)
        modes = () if arguments.without_peers else ("in_memory", "multi_processing")
        for mode, style in itertools.product(modes, ("array", "encoded")):
            subjects[f"TFDS Beam, {mode}, {style}"] = functools.partial(
                run, "tfds_beam", photos, out, mode, style
            )
        results["preprocess"] = take_turns(
            "preprocess", subjects, arguments.repeat, alternating=True
        )
    if "memory" in chosen:
        subjects = {
            f"shardmill, {small_count}": lambda: run("shardmill_preprocess", small, out, "exact"),
            f"shardmill, {arguments.photographs}": lambda: run(
                "shardmill_preprocess", large, out, "exact"
            ),
            f"shardmill, {small_count}, no dedup": lambda: run(
                "shardmill_preprocess", small, out, "off"
            ),
            f"shardmill, {arguments.photographs}, no dedup": lambda: run(
                "shardmill_preprocess", large, out, "off"
            ),
        }
        results["memory"] = take_turns("memory", subjects, arguments.repeat)
    if "read" in chosen:
        run("shardmill_preprocess", large, out, "off")
        subjects = {
            "hand-tuned tf.data": lambda: run("hand_tuned_read", out, "same", _READ_SECONDS),
            "hand-tuned, TF's crop": lambda: run("hand_tuned_read", out, "tf", _READ_SECONDS),
            "reader, cache off": lambda: run("shardmill_read", out, "window", "off", _READ_SECONDS),
            "reader, cache memory": lambda: run(
                "shardmill_read", out, "window", "memory", _READ_SECONDS
            ),
        }
        results["read"] = take_turns("read", subjects, arguments.repeat)

    file = _HERE / "results" / f"{datetime.date.today().isoformat()}.json"
    file.parent.mkdir(exist_ok=True)
    before = json.loads(file.read_text()) if file.exists() else {}
    if arguments.without_peers and "preprocess" in results:
        results["preprocess without peers"] = results.pop("preprocess")
    file.write_text(json.dumps(before | results, indent=1) + "\n")
    print(f"\nwritten to {file.relative_to(_HERE.parent)}")


def _collage_with_profile(data: bytes, number: int) -> bytes:
    return with_profile(collage(data, number), number)


def _preprocessing(photos: Path, out: Path) -> Subjects:
    return {
        "bare kernels": lambda: run("bare_kernels", photos),
        "shardmill": lambda: run("shardmill_preprocess", photos, out, "off"),
        "shardmill, exact duplicates": lambda: run("shardmill_preprocess", photos, out, "exact"),
        "shardmill, near duplicates": lambda: run("shardmill_preprocess", photos, out, "near"),
    }


if __name__ == "__main__":
    main()
