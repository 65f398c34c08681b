"""Checks the words of docstrings and the names of classes: `python -m tests.house.words`.

`words.toml` has how many breaks of each rule a package still has; the check fails on more of them.
`--write` lowers the counts to what there is. Who moves a file to another package moves its breaks
in `words.toml` by hand.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import tomli_w

REPOSITORY = Path(__file__).parents[2]
_ALLOWED = Path(__file__).with_name("words.toml")
_BESIDE_THE_PRODUCT = ("benchmarks", "tests")

RULES = {
    "of-descriptions": "an attribute or argument is described by a noun phrase, not by 'Of ...'",
    "returns-if": "a function says what it does, 'Checks that ...', not 'Returns if ...'",
    "see-docstrings": "@override (typing_extensions) in place of the docstring 'See ...'",
    "twin-classes": "a class name exists once in the product",
}

_OF_DESCRIPTION = re.compile(r"^\s*\*{0,2}\w+: Of\b")
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Break(NamedTuple):
    """One place that breaks a rule.

    Attributes:
        rule: Key in RULES.
        path: Path of the file in the repository.
        line: Line number, from 1.
        text: What is written there.
    """

    rule: str
    path: str
    line: int
    text: str

    @property
    def package(self) -> str:
        """The top-level folder."""
        return self.path.split("/", maxsplit=1)[0]


def main() -> None:
    """Prints every break of a rule that has more of them than `words.toml` allows."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.words", description=__doc__)
    parser.add_argument("--write", action="store_true", help="lower the counts of words.toml")
    parser.add_argument("--all", action="store_true", help="print the allowed breaks too")
    arguments = parser.parse_args()
    product = product_packages()
    files = [
        path
        for name in (*product, *_BESIDE_THE_PRODUCT)
        for path in (REPOSITORY / name).rglob("*.py")
    ]
    breaks = sorted(breaks_in(files, product), key=lambda one: (one.path, one.line))
    counts = count(breaks)
    allowed = tomllib.loads(_ALLOWED.read_text(encoding="utf-8")) if _ALLOWED.exists() else {}
    if arguments.write:
        _ALLOWED.write_text(tomli_w.dumps(lowered(counts, allowed)), encoding="utf-8")
        return
    more = False
    for one in breaks:
        limit = allowed.get(one.rule, {}).get(one.package, 0)
        if (too_many := counts[one.rule][one.package] > limit) or arguments.all:
            print(f"{one.path}:{one.line}: {one.rule}: {one.text}")
        more |= too_many
    if more:
        sys.exit("\n".join(["", *(f"{rule}: {reason}." for rule, reason in RULES.items())]))


def product_packages() -> list[str]:
    """The packages that mypy checks: those of the product."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project["tool"]["mypy"]["packages"])


def breaks_in(files: Iterable[Path], product: Iterable[str]) -> Iterator[Break]:
    """Finds the breaks of all rules in files of the repository."""
    classes: dict[str, list[Break]] = defaultdict(list)
    for path in files:
        name = path.relative_to(REPOSITORY).as_posix()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, _Documented):
                yield from _breaks_in_docstring(node, name)
            if isinstance(node, ast.ClassDef) and name.split("/")[0] in product:
                classes[node.name].append(Break("twin-classes", name, node.lineno, node.name))
    for places in classes.values():
        if len(places) > 1:
            yield from places


def _breaks_in_docstring(node: _Documented, name: str) -> Iterator[Break]:
    docstring = ast.get_docstring(node, clean=False)
    if docstring is None:
        return
    start = node.body[0].lineno
    if docstring.startswith("Returns if "):
        yield Break("returns-if", name, start, docstring.splitlines()[0])
    if docstring.startswith("See ") and not isinstance(node, ast.Module):
        yield Break("see-docstrings", name, start, docstring.splitlines()[0])
    for number, line in enumerate(docstring.splitlines()):
        if _OF_DESCRIPTION.match(line):
            yield Break("of-descriptions", name, start + number, line.strip())


def count(breaks: Iterable[Break]) -> dict[str, dict[str, int]]:
    """The number of breaks by rule and package."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in breaks:
        counts[one.rule][one.package] += 1
    return counts


def lowered(
    counts: dict[str, dict[str, int]], allowed: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    """The allowed counts, each at most what there is. Without any, what there is."""
    new = {
        rule: {
            package: min(number, allowed.get(rule, {}).get(package, 0) if allowed else number)
            for package, number in sorted(counts[rule].items())
        }
        for rule in RULES
    }
    return {
        rule: {package: number for package, number in packages.items() if number}
        for rule, packages in new.items()
    }


if __name__ == "__main__":
    main()
