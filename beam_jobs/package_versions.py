"""Versions of installed packages.

`importlib.metadata` parses all metadata of every package to say which ones provide a module, and a
whole description to say a version: 1 s of CPU time where 160 packages are installed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distributions


def package_version(package: str) -> str | None:
    """The version of a package; None if it is not installed as one."""
    try:
        return _field(Distribution.from_name(package), "Version")
    except PackageNotFoundError:
        return None


@functools.cache
def module_versions(*modules: str) -> dict[str, str]:
    """By top-level module the name and version of every package that provides it.

    Several may: some packages have more than one name.
    """
    versions: dict[str, set[str]] = {module: set() for module in modules}
    for package in distributions():
        for module in _provided(package, modules):
            versions[module].add(f"{_field(package, 'Name')} {_field(package, 'Version')}")
    return {module: ", ".join(sorted(packages)) for module, packages in versions.items()}


def _provided(package: Distribution, modules: Iterable[str]) -> list[str]:
    """Which of some modules a package provides: as it says, or else by its files."""
    declared = package.read_text("top_level.txt")
    if declared:
        names = declared.split()
        return [module for module in modules if module in names]
    files = package.read_text("RECORD") or ""
    return [
        module
        for module in modules
        if module in files and re.search(rf"^{re.escape(module)}(/[^,\n]*)?\.py,", files, re.M)
    ]


def _field(package: Distribution, name: str) -> str:
    """A field of the metadata, which begin with the fields."""
    text = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
    match = re.search(rf"^{name}:(.*)$", text, re.M)
    return match[1].strip() if match else ""
