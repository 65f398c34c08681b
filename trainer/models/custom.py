"""A model of the user's own: `--model package.module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foundation.errors import UsageError

SIGNATURE = "function(input_shape, num_classes) -> keras.Model"


def find_function(reference: str) -> Callable[[Any, int], Any]:
    """The function that `package.module:function` names.

    Raises:
        UsageError: The reference is malformed, its module cannot be imported, or the module has no
            such function.
    """
    module_name, _, function_name = reference.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), function_name]):
        raise UsageError(
            f"--model {reference!r} is not of the form package.module:function. Name an importable "
            "module and a function in it."
        )
    module = _import(module_name, reference)
    function = getattr(module, function_name, None)
    if not callable(function):
        what = "nothing of that name" if function is None else type(function).__name__
        raise UsageError(
            f"--model {reference} does not name a function: found {what} in {module.__file__}. "
            f"Define {SIGNATURE.replace('function', function_name)} there."
        )
    return function


def _import(module_name: str, reference: str) -> Any:
    with _working_directory_importable():
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise UsageError(
                    f"Importing {module_name} failed: {error} (--model {reference}). Install what "
                    "it needs."
                ) from error
            raise UsageError(
                f"No module {error.name!r} (--model {reference}). Run shardmill in the directory "
                "that holds it, install it, or put its directory on PYTHONPATH."
            ) from error
        except Exception as error:  # whatever the user's module raises is the user's to mend
            raise UsageError(
                f"Importing {module_name} failed with {type(error).__name__}: {error} (--model "
                f"{reference}). Correct the module."
            ) from error


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    """The current directory is searched last, as `python -m` would search it first.

    The `shardmill` command starts with the directory of the script on sys.path, so without this a
    `my_models.py` in the current directory would not be found. As the last entry, it hides no
    installed package.
    """
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)
