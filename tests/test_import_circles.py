"""No module imports itself by way of others, not even for type checkers or inside of functions."""

from __future__ import annotations

import grimp
import pytest


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """The strongly connected components of two or more modules, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for imported in graph.find_modules_directly_imported_by(module):
            if imported not in number:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], number[imported])
        if lowest[module] == number[module]:
            place = stack.index(module)
            component, stack[place:] = stack[place:], []
            if len(component) > 1:
                found.append(sorted(component))

    for module in sorted(graph.modules):
        if module not in number:
            visit(module)
    return found


@pytest.mark.parametrize("package", ["shard_format", "reader", "trainer", "cli"])
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    assert circles(graph) == []


def test_circles_are_found() -> None:
    graph = grimp.ImportGraph()
    for module in "abcde":
        graph.add_module(module)
    for importer, imported in ("ab", "bc", "ca", "cd", "de"):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == [["a", "b", "c"]]
