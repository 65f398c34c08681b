"""Checks the words of docstrings and the names of classes: `python -m tests.house.words`."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
_BESIDE_THE_PRODUCT = ("benchmarks", "tests")

RULES = {
    "of-descriptions": "an attribute or argument is described by a noun phrase, not by 'Of ...'",
    "returns-if": "a function says what it does, 'Checks that ...', not 'Returns if ...'",
    "see-docstrings": "@override (typing_extensions) in place of the docstring 'See ...'",
    "twin-classes": "a class name exists once in the product",
    "found-names": "a variable is named after what it holds, not 'found'",
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


def main() -> None:
    """Prints every break of a rule, and exits with 1 if there is one."""
    product = product_packages()
    files = [
        path
        for name in (*product, *_BESIDE_THE_PRODUCT)
        for path in (REPOSITORY / name).rglob("*.py")
    ]
    breaks = sorted(breaks_in(files, product), key=lambda one: (one.path, one.line))
    for one in breaks:
        print(f"{one.path}:{one.line}: {one.rule}: {one.text}")
    if breaks:
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
            if isinstance(node, ast.Name) and node.id == "found" and type(node.ctx) is ast.Store:
                yield Break("found-names", name, node.lineno, node.id)
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


if __name__ == "__main__":
    main()
