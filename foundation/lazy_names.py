"""Names of a package, and modules, that are imported when they are first used (PEP 562).

Importing the package is cheap then, whatever its modules import.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import cast


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(importlib.import_module(self._name), attribute)


def lazy_module(name: str) -> ModuleType:
    """A module that is imported when something of it is first used."""
    return cast(ModuleType, _LazyModule(name))


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    A name must not be that of a module in the package: importing the module would put it in the
    place of the name.

    Args:
        package: Its name.
        homes: The module of each name.
    """
    module = sys.modules[package]

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from foundation.extras import naming_extras

        with naming_extras():
            value: object = getattr(importlib.import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(module), *homes})

    return load, names
