"""Functions of the user by name, so that every worker can load them: "module:name"."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import operator
import sys
from pathlib import Path
from typing import Any

from shard_format import UsageError


def name_of(what: str, value: Any) -> str:
    """The name of a function, or the name itself.

    Raises:
        UsageError: No module has the function under its name.
    """
    if not value or isinstance(value, str):
        return value or ""
    if inspect.ismethod(value) and not inspect.isclass(value.__self__):
        raise UsageError(
            f"{what} is a method of an object, {value!r:.80}, which workers do not have. Define a "
            "function at the top of a module."
        )
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    if module == "__main__":
        module = Path(getattr(sys.modules["__main__"], "__file__", "") or "").stem
    if not module or not name or "<" in name:
        raise UsageError(
            f"{what} is {value!r}, which workers cannot import. Define it at the top of a module."
        )
    return f"{module}:{name}"


def file_of_module(module: str) -> str:
    """The file of a module.

    Raises:
        UsageError: There is no such module.
    """
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main and Path(main).stem == module:
        return str(Path(main).absolute())
    try:
        with_path()
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        raise UsageError(
            f"There is no module {module!r} on Python's path ({', '.join(sys.path[:3])}, ...). Run "
            "the command where it is, or set PYTHONPATH."
        )
    return spec.origin


def with_path() -> None:
    """Makes modules of the working directory importable, as they are for python itself."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, "")


@functools.lru_cache(maxsize=16)
def load_name(name: str, file: str = "") -> Any:
    """What "module:name" names.

    Args:
        name: The name.
        file: The file of the module, which is loaded where the module is not on the path.

    Raises:
        UsageError: There is no such thing.
    """
    module, _, attribute = name.partition(":")
    with_path()
    try:
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0] or not file:
                raise
            sys.path.insert(0, str(Path(file).parents[module.count(".")]))
            loaded = importlib.import_module(module)
        return operator.attrgetter(attribute)(loaded)
    except Exception as error:  # of the module, which may raise anything
        raise UsageError(
            f"{name!r} cannot be imported: {type(error).__name__}: {error}. Name what a module on "
            "Python's path has, as module:name."
        ) from error
