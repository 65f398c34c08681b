"""Edits of a copy of the tree: what a row of CONTRIBUTING's "Where do I add ..." asks for.

The code to add is in tests/docs/toys, under the path that it has in the tree.
"""

from __future__ import annotations

import ast
import dataclasses
import shutil
from pathlib import Path

TOYS = Path(__file__).parent / "toys"


@dataclasses.dataclass(frozen=True)
class File:
    """A new file, the toy of this path."""

    path: str

    def apply(self, tree: Path) -> None:
        assert not (tree / self.path).exists()
        shutil.copy(TOYS / self.path, tree / self.path)


@dataclasses.dataclass(frozen=True)
class Function:
    """The functions of the toy of this path, in the file, above the table that is to name them."""

    path: str
    table: str

    def apply(self, tree: Path) -> None:
        toy = (TOYS / self.path).read_text()
        functions = [node for node in ast.parse(toy).body if isinstance(node, ast.FunctionDef)]
        added = [f"{ast.get_source_segment(toy, function)}\n\n\n" for function in functions]
        lines = _lines(tree / self.path)
        first = _table(tree / self.path, self.table).lineno - 1
        (tree / self.path).write_text("".join([*lines[:first], *added, *lines[first:]]))


@dataclasses.dataclass(frozen=True)
class Line:
    """An entry at the end of a table (of the table under the key `inside`), and its import."""

    path: str
    table: str
    entry: str
    imports: str = ""
    inside: str = ""

    def apply(self, tree: Path) -> None:
        path = tree / self.path
        value = _table(path, self.table).value
        value = value.args[0] if isinstance(value, ast.Call) else value  # Members({...})
        if self.inside:
            keys = [key.value for key in value.keys]
            value = value.values[keys.index(self.inside)]
        lines = _lines(path)
        last = lines[value.end_lineno - 1]
        # "{...}" and "(...)" may be one line, or end with a bracket of their own.
        before, bracket = last[: value.end_col_offset - 1], last[value.end_col_offset - 1 :]
        comma = "" if not before.strip() or before.rstrip().endswith(",") else ", "
        lines[value.end_lineno - 1] = f"{before}{comma}{self.entry},{bracket}"
        if self.imports:
            body = ast.parse("".join(lines)).body
            ends = [n.end_lineno for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
            lines.insert(ends[-1], f"{self.imports}\n")
        path.write_text("".join(lines))


@dataclasses.dataclass(frozen=True)
class Field:
    """A field at the end of the options of a dataclass."""

    path: str
    owner: str
    text: str

    def apply(self, tree: Path) -> None:
        lines = _lines(tree / self.path)
        body = ast.parse("".join(lines)).body
        (owner,) = (n for n in body if isinstance(n, ast.ClassDef) and n.name == self.owner)
        last = [field for field in owner.body if isinstance(field, ast.AnnAssign)][-1]
        lines.insert(last.end_lineno, f"    {self.text}\n")
        (tree / self.path).write_text("".join(lines))


Edit = File | Function | Line | Field


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def _table(path: Path, name: str) -> ast.Assign | ast.AnnAssign:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return node
    raise AssertionError(f"{path} has no {name}")
