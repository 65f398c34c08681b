"""Programs that list and read records, for tests: every worker imports this module."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = {
    "steps/action": "float32[*,3]",
    "steps/reward": "float32[*]",
    "task": "text",
    "number": "int64",
    "pose": "float64[2,2]",
}


def record(episode: int, number: int) -> dict[str, Any]:
    return {
        "steps/action": np.full((number + 1, 3), episode, np.float32),
        "steps/reward": [0.5] * (number + 1),
        "task": f"task {episode}.{number}",
        "number": 10 * episode + number,
        "pose": np.eye(2) * (episode + 0.1),
    }


class episodes:
    schema = SCHEMA

    @staticmethod
    def items() -> Iterator[dict[str, int]]:
        for episode in range(12):
            yield {"episode": episode}

    @staticmethod
    def read(item: dict[str, int]) -> Iterator[dict[str, Any]]:
        for number in range(3):
            yield record(item["episode"], number)


def names() -> list[str]:
    """One item for every case of `odd`."""
    return os.environ["SHARDMILL_TEST_ITEMS"].split(",")


def odd(item: str) -> Iterator[Any]:
    """Records that are fine, and one that is not."""
    good: dict[str, Any] = {"value": 1.5, "text": f"of {item}"}
    yield good
    if item == "raises":
        raise KeyError("a field")
    if item == "hangs":
        time.sleep(60)
    bad: dict[str, Any] = {
        "list": [1, 2],
        "none": None,
        "missing": {"value": 1.0},
        "unknown": {**good, "more": 1},
        "shape": {**good, "value": [1.0]},
        "type": {**good, "text": 7},
        "label": {**good, "label": ["a", "b"]},
    }
    if item in bad:
        yield bad[item]
    yield {"value": 2.5, "text": f"the last of {item}"}


def keys() -> list[int]:
    return list(range(30))


def keyed(item: int) -> Iterator[dict[str, Any]]:
    """Labels, groups and splits; of every number two records are equal but for `at`."""
    for half in range(2):
        yield {
            "id": f"{'ab'[half]}",
            "value": item,
            "at": item * 2 + half,
            "label": ["even", "odd"][item % 2],
            "group": f"g{item}",
            "split": "test" if item % 3 == 0 else "train",
        }


def files() -> list[str]:
    return sorted(map(str, Path(os.environ["SHARDMILL_TEST_FOLDER"]).glob("*.txt")))


def lines(item: str) -> Iterator[dict[str, Any]]:
    (Path(os.environ["SHARDMILL_TEST_FOLDER"]) / "read.log").open("a").write(f"{item}\n")
    for line in Path(item).read_text().splitlines():
        yield {"line": line}


def twice() -> list[str]:
    return ["a", "b", "a"]


def repeated(item: str) -> Iterator[dict[str, Any]]:
    """Records of which two have the id of another one, and one has none."""
    for number, name in enumerate(["a", "b", "a", None, "000000003"]):
        yield {"value": number, **({"id": name} if name else {})}


def failing() -> Iterator[str]:
    yield "a"
    raise OSError("the catalogue is away")


def no_json() -> list[Any]:
    return [object()]


def plain(item: str) -> Iterator[dict[str, Any]]:
    yield {"line": str(item)}


def one() -> list[str]:
    return ["one"]


def nothing() -> list[str]:
    return []


def in_splits(item: str) -> Iterator[dict[str, Any]]:
    for split in ("train", "test", "holdout"):
        yield {"value": len(split), "split": split}


def _ten() -> Iterator[dict[str, Any]]:
    for number in range(10):
        yield {"value": number, "data": b""}


def ten_and_nothing(item: str) -> Iterator[dict[str, Any]]:
    yield from _ten()
    time.sleep(60)


def ten_and_the_end(item: str) -> Iterator[dict[str, Any]]:
    yield from _ten()
    raise SystemExit(3)


def large(item: str) -> Iterator[dict[str, Any]]:
    """Records of a megabyte, of which none is waited for."""
    for number in range(30):
        yield {"value": number, "data": bytes([number]) * (1 << 20)}


class Source:
    def listed(self) -> list[str]:
        return ["one"]


def empty(item: str) -> Iterator[dict[str, Any]]:
    good: dict[str, Any] = {"rows": [], "boxes": [], "nested": [[]]}
    yield good
    yield {**good, "nested": {(1, 2)}}


def versions(version: str) -> list[str]:
    return [f"item of {version}"]


def versioned(item: str, version: str) -> Iterator[dict[str, Any]]:
    yield {"line": f"{item}, {version}"}
