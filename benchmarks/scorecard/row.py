"""What a row of the scorecard is: a job, what is measured of it, and who does it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Run

OURS = "shardmill"


@dataclasses.dataclass(frozen=True)
class Bench:
    """Where rows are measured.

    Attributes:
        work: Scratch folder. Corpora and sets are made there once.
        peers: Folder with an environment of each name in benchmarks/peers.
        is_small: Whether rows have their smallest size, which tests run.
    """

    work: Path
    peers: Path
    is_small: bool = False

    def python(self, environment: str) -> str:
        """The interpreter of an environment of peers."""
        return str(self.peers / environment / "bin" / "python")

    def has(self, environment: str) -> bool:
        """Whether an environment is there; that of shardmill, "", always is."""
        return not environment or Path(self.python(environment)).exists()


@dataclasses.dataclass(frozen=True)
class Column:
    """One figure of a run.

    Attributes:
        name: Heading, with its unit.
        value: The figure; text where it is none.
        better: "more" or "less"; empty where neither is.
        digits: Decimal places of a number.
    """

    name: str
    value: Callable[[Run], float | str]
    better: str = ""
    digits: int = 0


@dataclasses.dataclass(frozen=True)
class Subject:
    """A program that does the job of a row.

    Attributes:
        name: Its name, and the configuration where it has several.
        of: `OURS`, the name of the peer, or empty of a baseline that nobody publishes.
        run: Does the job once.
        environment: What it runs in: a name in benchmarks/peers, or empty.
        follows: The page of the peer's documentation that the configuration follows.
    """

    name: str
    of: str
    run: Callable[[], Run]
    environment: str = ""
    follows: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A job that shardmill and its peers do.

    Attributes:
        name: Its name on the command line.
        title: What the job is, in some words.
        task: What every subject does, and how it is made fair: paragraphs in Markdown.
        columns: Its figures. By the first one subjects are ranked.
        subjects: Makes what they read, and returns them.
        behind: Why shardmill does not lead where it does not, and what was tried.
        turns: The most turns that are worth it; 1 where every run gives the same figures.
    """

    name: str
    title: str
    task: str
    columns: tuple[Column, ...]
    subjects: Callable[[Bench], list[Subject]]
    behind: str = ""
    turns: int = 1 << 30


def subjects_of(
    table: Sequence[tuple[str, str, str, str, str]],
    run: Callable[[str, str], Run],
    own_forms: Sequence[str] = (OURS,),
) -> list[Subject]:
    """The subjects of a table.

    Args:
        table: Name, owner, library, form of the set and page of the documentation of each.
        run: (library, form) -> a run.
        own_forms: Forms that are read in the environment of shardmill; "readers" has the others.
    """
    return [
        Subject(
            name,
            whose,
            functools.partial(run, library, form),
            "" if form in own_forms else "readers",
            page,
        )
        for name, whose, library, form, page in table
    ]


def detail(key: str, scale: float = 1) -> Callable[[Run], Any]:
    """The value of a column that a subject reported itself."""

    def value(run: Run) -> Any:
        own = run.details[key]
        return own * scale if isinstance(own, (int, float)) else own

    return value


def rate_columns(records: str) -> tuple[Column, ...]:
    """The columns of a row that is about speed.

    Args:
        records: What is counted, in the plural.
    """
    return (
        Column(f"{records}/s", lambda run: run.rate, "more"),
        Column("CPU ms each", lambda run: 1000 / run.cpu_rate, "less", 2),
        Column("peak MiB", lambda run: run.peak_mib, "less"),
    )
