"""A log of sensors as windows of hours: a record is a day of one sensor, its label the sensor.

shardmill preprocess records --from samples.records.sensors:days --out sensors-set
"""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LOG = Path(__file__).parent / "sensors.csv"
ROWS_A_DAY = 144  # one in ten minutes


def rows_of(sensor: str) -> list[dict[str, str]]:
    """The rows of a sensor, in the order of their times."""
    with LOG.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["sensor"] == sensor]


def items() -> Iterator[list[Any]]:
    """(sensor, first row) of each day, and of the rest behind the last one."""
    for sensor in ("attic", "cellar"):
        for begin in range(0, len(rows_of(sensor)), ROWS_A_DAY):
            yield [sensor, begin]


def read(item: list[Any]) -> Iterator[dict[str, Any]]:
    """The record of a day; a value that is missing is NaN."""
    sensor, begin = item
    rows = rows_of(sensor)[begin : begin + ROWS_A_DAY]
    yield {
        "label": sensor,
        "group": sensor,
        "begin": int(rows[0]["time"]),
        "values": [
            [float(row[name] or math.nan) for name in ("temperature", "humidity")] for row in rows
        ],
    }


days = SimpleNamespace(
    items=items, read=read, schema={"begin": "int64", "values": "float32[*,2]"}
)
