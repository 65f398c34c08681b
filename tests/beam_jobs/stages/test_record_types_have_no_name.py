"""Stages, and what all kinds of records share, know no record type by name."""

from __future__ import annotations

import ast
import re

import pytest

from beam_jobs.options import OPTIONS

# A record type, or what one of them alone has.
NAMES = re.compile(
    rf"\b({'|'.join(OPTIONS)}|pictures?|documents?|tokens?|tokenizers?|pixels?|segments?)\b"
)
SHARED = ("stages/plan/*.py", "stages/shard.py", "stages/labels.py", "dedup/*.py")
# Names that mean something else there.
ALLOWED = {"text", "record"}  # the content of plan.json, and a record of any type


def words(tree: ast.AST) -> set[str]:
    """Every name and string of a program, without its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {node.value} if id(node) not in docstrings else set()
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.arg | ast.alias | ast.FunctionDef | ast.ClassDef):
            names.add(node.arg if isinstance(node, ast.arg) else node.name)
    return names


@pytest.mark.parametrize("pattern", SHARED)
def test_no_record_type_is_named(repository, pattern):
    files = sorted((repository / "beam_jobs").glob(pattern))
    assert files
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        # Parts of names count too: "near_text" and "ImageOptions".
        parts = {
            part
            for word in words(tree)
            for part in re.sub(r"([a-z])([A-Z])", r"\1 \2", word).replace("_", " ").split("\n")
        }
        named = {match[0] for part in parts for match in NAMES.finditer(part.lower())}
        assert named - ALLOWED == set(), file
