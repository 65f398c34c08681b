"""Which way imports of beam_jobs go, type checking and late imports included."""

from __future__ import annotations

import ast
import graphlib

import pytest

# Each may import from those behind it, and from its own kind.
FLOORS = (
    ("stages",),
    ("record_types",),
    ("images",),  # its perceptual hashes have the format of dedup.images
    ("dedup", "text"),
    ("staging",),
    ("columns", "counters", "progress"),
)


@pytest.fixture(scope="module")
def imports(repository):
    """Every module of beam_jobs with the modules that it imports anywhere."""
    root = repository / "beam_jobs"
    modules = {}
    for file in root.rglob("*.py"):
        parts = ("beam_jobs", *file.relative_to(root).with_suffix("").parts)
        modules[".".join(parts).removesuffix(".__init__")] = file
    graph = {}
    for module, file in modules.items():
        imported = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                # A name of a package may be one of its modules.
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= (inside & modules.keys()) or {node.module}
        graph[module] = imported & modules.keys()
    return graph


def floor(module):
    """Of a module; None outside of FLOORS."""
    parts = module.split(".")
    return next((at for at, names in enumerate(FLOORS) if set(parts[1:2]) & set(names)), None)


def test_imports_go_down(imports):
    up = [
        (module, other)
        for module, others in imports.items()
        for other in others
        if None not in (floor(module), floor(other)) and floor(other) < floor(module)
    ]
    assert up == []


def test_kinds_of_records_do_not_import_each_other(imports):
    for one, other in (
        ("text", "images"),
        ("images", "text"),
        ("text", "dedup"),
        ("dedup", "text"),
    ):
        for module, others in imports.items():
            if module.startswith(f"beam_jobs.{one}."):
                assert not [to for to in others if to.startswith(f"beam_jobs.{other}.")], module


def test_no_circles(imports):
    """Of the modules below the stages: those above are tested with the corpus layer."""
    inside = {module: others for module, others in imports.items() if floor(module) is not None}
    graph = {module: others & inside.keys() for module, others in inside.items()}
    graphlib.TopologicalSorter(graph).prepare()
